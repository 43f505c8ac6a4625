{{- /*
SPDX-FileCopyrightText: The Tutti Authors
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{/* tutti.labels are on every object. */}}
{{- define "tutti.labels" -}}
app.kubernetes.io/part-of: tutti
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* tutti.image of dict root, name. */}}
{{- define "tutti.image" -}}
{{- with .root.Values.image.registry }}{{ . }}/{{ end }}{{ .name }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* tutti.file is one of manifests/, moved into the release's namespace. */}}
{{- define "tutti.file" -}}
{{- .root.Files.Get (printf "files/%s" .name) | replace "amespace: tutti-system" (printf "amespace: %s" .root.Release.Namespace) }}
{{- end }}

{{/*
tutti.objects are those of a file, with the chart's labels: dict root, name. With "except", those whose names begin so
are left out; "labels" and "annotations" are set on all.
*/}}
{{- define "tutti.objects" -}}
{{- $root := .root }}
{{- $except := .except }}
{{- $labels := mergeOverwrite (include "tutti.labels" $root | fromYaml) (.labels | default dict) }}
{{- $annotations := .annotations }}
{{- range $document := regexSplit "(?m)^---$" (include "tutti.file" .) -1 }}
{{- $object := fromYaml $document }}
{{- if not (and $except (hasPrefix $except $object.metadata.name)) }}
{{- $_ := set $object.metadata "labels" (mergeOverwrite (deepCopy ($object.metadata.labels | default dict)) $labels) }}
{{- with $annotations }}
{{- $_ := set $object.metadata "annotations" (mergeOverwrite (deepCopy ($object.metadata.annotations | default dict)) .) }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}
{{- end }}
{{- end }}

{{/* tutti.pods is what the pods of both programs have alike: dict root, name, values. */}}
{{- define "tutti.pods" -}}
serviceAccountName: {{ .name }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
{{ toYaml . }}
{{- end }}
# On different nodes and in different zones, where there are any.
affinity:
{{- if .values.affinity }}
  {{- toYaml .values.affinity | nindent 2 }}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: {{ .name }}
{{- end }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{/* tutti.container is what their containers have alike. */}}
{{- define "tutti.container" -}}
image: {{ include "tutti.image" . | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- with .values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* tutti.budget and tutti.service of a program. */}}
{{- define "tutti.budget" -}}
# A drain takes one replica at a time. One that is not ready protects nothing, so it may always go.
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ .name }}
    {{- include "tutti.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
{{- end }}

{{- define "tutti.service" -}}
# Metrics, of each replica. Readers need a token whose user may get /metrics: see the ClusterRole
# tutti-metrics-reader. The certificate is the program's own (insecure_skip_verify).
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ .name }}
    {{- include "tutti.labels" .root | nindent 4 }}
  annotations:
    prometheus.io/scrape: "true"
    prometheus.io/scheme: https
    prometheus.io/port: {{ .port | quote }}
    prometheus.io/path: /metrics
spec:
  selector:
    app.kubernetes.io/name: {{ .name }}
  ports:
  - name: metrics
    port: {{ .port }}
    targetPort: {{ .target }}
{{- end }}

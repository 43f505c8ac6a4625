// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/yaml"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/page"
)

// kubectlOnNative looks at what kubectl tutti says of the native gang wide, of
// 9 pods that want one rack and do not fit there, beside the same gang of the CRD.
func (s *scene) kubectlOnNative(ctx context.Context) error {
	wish := map[string]string{tuttiapi.RequiredTopologyAnnotation: "rack"}
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "broad", Annotations: wish}, Spec: v1alpha1.PodGroupSpec{MinMember: 9}}
	if _, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Create(ctx, group, metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range 9 {
		if err := s.createPod(ctx, member(fmt.Sprintf("broad-%d", i), "broad", 8)); err != nil {
			return err
		}
	}
	s.eventually(ctx, "the gang of the CRD is refused", s.refused("broad", 9))
	file := filepath.Join(s.t.TempDir(), "cluster.yaml")
	s.says(nil, "snapshot", "-f", file)
	for _, question := range [][]string{{"why", "podgroup/wide"}, {"why", "pod", "wide-0"}, {"why", "wide", "--from", file}} {
		native, stderr, err := s.kubectl(question...)
		if err != nil || stderr != "" {
			return fmt.Errorf("kubectl tutti %v: %w: %s", question, err, stderr)
		}
		for i, word := range question {
			question[i] = strings.Replace(word, "wide", "broad", 1)
		}
		crd, _, err := s.kubectl(question...)
		if err != nil || strings.ReplaceAll(crd, "broad", "wide") != native || !strings.Contains(native, "without tutti.dev/required-topology it would start") {
			s.t.Errorf("kubectl tutti %v, native:\n%s\nof the CRD (%v):\n%s", question, native, err, crd)
		}
	}
	s.says([]string{s.namespace + "/wide ", s.namespace + "/broad ", "no rack takes all 9 pods"}, "replay", file)
	anonymous := filepath.Join(s.t.TempDir(), "anonymous.yaml")
	s.says(nil, "snapshot", "--anonymize", "-f", anonymous)
	s.says([]string{"no rack takes all 9 pods"}, "replay", anonymous)
	s.says([]string{"podgroup " + s.namespace + "/planned would start: placed 2 pods in"}, "plan", "-f", s.nativeManifest("planned", 2, 1))
	s.says([]string{"podgroup " + s.namespace + "/planned would wait: "}, "plan", "-f", s.nativeManifest("planned", 2, 9))
	return s.pageShows(ctx, page.Gang{Reference: page.Reference{Kind: "PodGroup", Namespace: s.namespace, Name: "wide"}, State: "waiting", Pods: 9, Minimum: 9})
}

// nativeManifest is a file with a native gang.
func (s *scene) nativeManifest(name string, pods int, gpus int64) string {
	group := nativeGroup(name, int32(pods), "")
	group.TypeMeta = metav1.TypeMeta{APIVersion: schedulingv1beta1.SchemeGroupVersion.String(), Kind: "PodGroup"}
	objects := []runtime.Object{group}
	for i := range pods {
		pod := nativeMember(fmt.Sprintf("%s-%d", name, i), name, gpus)
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		objects = append(objects, pod)
	}
	var text strings.Builder
	for _, object := range objects {
		data, err := yaml.Marshal(object)
		must(s.t, err)
		text.WriteString("---\n" + string(data))
	}
	path := filepath.Join(s.t.TempDir(), "gang.yaml")
	must(s.t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// pageShows opens the page of kubectl tutti ui and looks for the gang.
func (s *scene) pageShows(ctx context.Context, want page.Gang) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ui := exec.CommandContext(ctx, filepath.Join("..", "..", "bin", "kubectl-tutti"), "ui", "--kubeconfig", s.plane.Kubeconfig)
	out, err := ui.StdoutPipe()
	if err != nil {
		return err
	}
	if err := ui.Start(); err != nil {
		return err
	}
	defer func() {
		cancel()
		_ = ui.Wait() // it is killed
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return errors.New("kubectl tutti ui does not say where it is")
	}
	address, _, _ := strings.Cut(lines.Text(), " ")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"api/state", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var state page.State
	if err := json.NewDecoder(response.Body).Decode(&state); err != nil {
		return err
	}
	at := slices.IndexFunc(state.Gangs, func(g page.Gang) bool { return g.Reference == want.Reference })
	if at < 0 {
		return fmt.Errorf("the page shows the gangs %+v, want %+v", state.Gangs, want)
	}
	if got := state.Gangs[at]; got.State != want.State || got.Pods != want.Pods || got.Minimum != want.Minimum || got.Message == "" {
		return fmt.Errorf("the page shows %+v, want %+v and its verdict", got, want)
	}
	return nil
}

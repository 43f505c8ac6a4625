// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tutti-project/tutti/pkg/why"
)

// kinds are what a name may be, by what users call it.
var kinds = map[string]string{"tfjob": "TFJob", "tfjobs": "TFJob", "podgroup": "PodGroup", "podgroups": "PodGroup", "pg": "PodGroup", "pod": "Pod", "pods": "Pod", "po": "Pod"}

func newWhy(e *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why [tfjob|podgroup|pod] NAME",
		Short: "Why a job, a group or a pod waits, and what would help.",
		Long: `Says what keeps a job from starting: what the scheduler never sees (suspension,
missing pods, gates, another scheduler), and else the scheduler's own decision on
the cluster as it is now, with what would help: a wish less, or an eviction.`,
		Example: `  kubectl tutti why my-job
  kubectl tutti why pod my-job-worker-0
  kubectl tutti why podgroup/my-job -o yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return errors.New("give one name, as NAME, KIND NAME or KIND/NAME")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.why(cmd.Context(), args) },
	}
	e.addOutput(cmd)
	return cmd
}

func (e *environment) why(ctx context.Context, args []string) error {
	wanted, name, err := subjectOf(args)
	if err != nil {
		return err
	}
	namespace, err := e.namespace()
	if err != nil {
		return err
	}
	config, err := e.schedulerConfig(ctx)
	if err != nil {
		return err
	}
	s, err := e.cluster(ctx)
	if err != nil {
		return err
	}
	subject, err := why.Find(s, wanted, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	facts, err := e.facts(ctx, s, config, subject)
	if err != nil {
		return err
	}
	answer, err := why.Explain(facts, subject)
	if err != nil {
		return err
	}
	return e.print(answer, func(w io.Writer) error {
		fmt.Fprintf(w, "%s %s\n", answer.Subject, answer.State)
		for _, reason := range answer.Because {
			fmt.Fprintf(w, "  because  %s\n", reason)
		}
		for _, help := range answer.Help {
			fmt.Fprintf(w, "  but      %s\n", help)
		}
		return nil
	})
}

func subjectOf(args []string) (wanted []string, name string, err error) {
	kind, name := "", args[len(args)-1]
	if len(args) == 2 {
		kind = args[0]
	} else if before, after, ok := strings.Cut(name, "/"); ok {
		kind, name = before, after
	}
	if kind == "" {
		return []string{"TFJob", "PodGroup", "Pod"}, name, nil
	}
	found, ok := kinds[strings.ToLower(strings.SplitN(kind, ".", 2)[0])]
	if !ok {
		return nil, "", fmt.Errorf("%q is no kind that is scheduled here; want tfjob, podgroup or pod", kind)
	}
	return []string{found}, name, nil
}

// addLive adds what no snapshot holds: events, and whether a scheduler is there.
func (e *environment) addLive(ctx context.Context, facts *why.Facts, subject why.Subject, lease types.NamespacedName) error {
	if e.from != "" {
		return nil
	}
	config, err := e.restConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	list, err := client.CoreV1().Events(subject.Name.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.SelectorFromSet(fields.Set{
		"involvedObject.name": subject.Name.Name, "involvedObject.kind": subject.Kind, "type": v1.EventTypeWarning,
	}).String()})
	if err == nil {
		slices.SortFunc(list.Items, func(a, b v1.Event) int { return cmp.Compare(lastSeen(b).UnixNano(), lastSeen(a).UnixNano()) })
		for _, event := range list.Items {
			facts.Warnings = append(facts.Warnings, event.Message)
		}
	}
	found, err := client.CoordinationV1().Leases(lease.Namespace).Get(ctx, lease.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		facts.Renewed = &time.Time{}
	case err == nil && found.Spec.RenewTime != nil:
		facts.Renewed = &found.Spec.RenewTime.Time
	}
	return nil
}

func lastSeen(event v1.Event) time.Time {
	if event.Series != nil {
		return event.Series.LastObservedTime.Time
	}
	if !event.LastTimestamp.IsZero() {
		return event.LastTimestamp.Time
	}
	return event.EventTime.Time
}

// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tutti-project/tutti/pkg/topology"
)

// Args are the plugin's arguments in the scheduler's configuration file:
//
//	pluginConfig:
//	- name: GangTopology
//	  args:
//	    levels:            # wide to narrow; default: topology.DefaultLevels
//	    - name: rack
//	      nodeLabels: [example.com/rack]
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// Levels are the tiers of the fabric between the cluster and the host,
	// from wide to narrow.
	Levels []Level `json:"levels,omitempty"`
}

// Level is one tier: a name, and the node labels that may carry it, the first
// one that a node has being the one that counts.
type Level struct {
	Name       string   `json:"name"`
	NodeLabels []string `json:"nodeLabels"`
}

// LevelsOf reads the levels of the profile's plugin, as the plugin itself does.
func LevelsOf(profile config.KubeSchedulerProfile) ([]topology.Level, error) {
	var object runtime.Object
	for _, plugin := range profile.PluginConfig {
		if plugin.Name == Name {
			object = plugin.Args
		}
	}
	args, err := argsFrom(object)
	return args.levels(), err
}

// argsFrom decodes, defaults and validates. Unknown fields are errors.
func argsFrom(object runtime.Object) (Args, error) {
	var args Args
	if object != nil {
		unknown, ok := object.(*runtime.Unknown)
		if !ok {
			return Args{}, fmt.Errorf("args of plugin %s: want an object, got %T", Name, object)
		}
		decoder := json.NewDecoder(bytes.NewReader(unknown.Raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&args); err != nil {
			return Args{}, fmt.Errorf("args of plugin %s: %w", Name, err)
		}
	}
	args.setDefaults()
	if errs := args.validate(field.NewPath("args")); len(errs) > 0 {
		return Args{}, fmt.Errorf("plugin %s: %w", Name, errs.ToAggregate())
	}
	return args, nil
}

func (a *Args) setDefaults() {
	if len(a.Levels) > 0 {
		return
	}
	for _, level := range topology.DefaultLevels() {
		a.Levels = append(a.Levels, Level(level))
	}
}

func (a *Args) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New("cluster", "host")
	for i, level := range a.Levels {
		at := path.Child("levels").Index(i)
		for _, message := range validation.IsDNS1123Label(level.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), level.Name, message))
		}
		if names.Has(level.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), level.Name))
		}
		names.Insert(level.Name)
		if len(level.NodeLabels) == 0 {
			errs = append(errs, field.Required(at.Child("nodeLabels"), "at least one node label"))
		}
		for j, label := range level.NodeLabels {
			if messages := validation.IsQualifiedName(label); len(messages) > 0 {
				errs = append(errs, field.Invalid(at.Child("nodeLabels").Index(j), label, strings.Join(messages, "; ")))
			}
		}
	}
	return errs
}

func (a *Args) levels() []topology.Level {
	levels := make([]topology.Level, len(a.Levels))
	for i, level := range a.Levels {
		levels[i] = topology.Level(level)
	}
	return levels
}

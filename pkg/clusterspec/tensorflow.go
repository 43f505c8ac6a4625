// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterspec

import "encoding/json"

// Field order in these structs is the order of the keys in TF_CONFIG, which users compare as text.
type (
	tfConfig struct {
		Cluster     map[string][]string `json:"cluster"` // encoding/json sorts the roles
		Task        tfTask              `json:"task"`
		Environment string              `json:"environment"`
	}
	tfTask struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	tfSparseConfig struct {
		Cluster tfSparseCluster `json:"cluster"`
		Task    tfTask          `json:"task"`
	}
	tfSparseCluster struct {
		Worker    map[int]string `json:"worker"`
		PS        []string       `json:"ps"` // null when the job has no such role
		Chief     []string       `json:"chief,omitempty"`
		Evaluator []string       `json:"evaluator,omitempty"`
		Master    []string       `json:"master,omitempty"`
	}
)

// tensorflow renders TF_CONFIG, or nothing for a job of one task: some TensorFlow APIs take a one-task cluster for a
// distributed one. A dynamic job is never taken for local, because its first task would miss the peers that come later.
func tensorflow(job Job, task Task) ([]Var, error) {
	if !job.Dynamic && job.replicas() == 1 {
		return nil, nil
	}
	var config any = tfConfig{Cluster: fullCluster(job), Task: tfTask{task.Role, task.Index}, Environment: "cloud"}
	if job.Dynamic {
		config = tfSparseConfig{Cluster: sparseCluster(job, task), Task: tfTask{task.Role, task.Index}}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	return []Var{{Name: "TF_CONFIG", Value: string(text)}}, nil
}

func fullCluster(job Job) map[string][]string {
	cluster := make(map[string][]string, len(job.Roles))
	for _, r := range job.Roles {
		cluster[r.Name] = job.addresses(r)
	}
	return cluster
}

// sparseCluster holds what does not change when workers come and go: a worker knows itself and the parameter servers, a
// parameter server knows itself, any other task its own role and the parameter servers.
func sparseCluster(job Job, task Task) tfSparseCluster {
	own, _ := job.role(task.Role)
	if task.Role == "ps" {
		return tfSparseCluster{Worker: map[int]string{}, PS: []string{job.address(own, task.Index)}}
	}
	cluster := tfSparseCluster{Worker: map[int]string{}}
	if ps, ok := job.role("ps"); ok {
		cluster.PS = job.addresses(ps)
	}
	switch task.Role {
	case "worker":
		cluster.Worker[task.Index] = job.address(own, task.Index)
	case "chief":
		cluster.Chief = job.addresses(own)
	case "evaluator":
		cluster.Evaluator = job.addresses(own)
	case "master":
		cluster.Master = job.addresses(own)
	}
	return cluster
}

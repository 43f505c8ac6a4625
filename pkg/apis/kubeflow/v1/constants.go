// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package v1

// Names of the kind.
const (
	TFJobKind          = "TFJob"
	TFJobPlural        = "tfjobs"
	TFJobSingular      = "tfjob"
	TFJobFrameworkName = "tensorflow"
)

// What a pod template must or may contain.
const (
	// TFJobDefaultContainerName is the container that trains; every template has one of this name.
	TFJobDefaultContainerName = "tensorflow"
	// TFJobDefaultPortName is the name of the port by which replicas reach each other.
	TFJobDefaultPortName = "tfjob-port"
	// TFJobDefaultPort is used where the container declares no port of that name.
	TFJobDefaultPort = 2222
)

// TFJobControllerName is the value of OperatorNameLabel on everything made for a TFJob.
const TFJobControllerName = "tfjob-controller"

// Labels of a job's pods and services. The TFJob controller writes them and selects by them; the
// scheduler reads role and rank from ReplicaTypeLabel and ReplicaIndexLabel; upstream's SDK lists
// pods by all of them.
const (
	OperatorNameLabel = "training.kubeflow.org/operator-name"
	JobNameLabel      = "training.kubeflow.org/job-name"
	// ReplicaTypeLabel is the replica type in lower case.
	ReplicaTypeLabel = "training.kubeflow.org/replica-type"
	// ReplicaIndexLabel is the index within the type, in decimal.
	ReplicaIndexLabel = "training.kubeflow.org/replica-index"
	// JobRoleLabel is JobRoleMaster on pods that decide the job's success, and absent elsewhere.
	JobRoleLabel  = "training.kubeflow.org/job-role"
	JobRoleMaster = "master"
)

// Values of RunPolicy.ManagedBy.
const (
	ManagedByTrainingOperator = "kubeflow.org/training-operator"
	ManagedByMultiKueue       = "kueue.x-k8s.io/multikueue"
)

// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUsersRolesAreThoseOfKubeflow: who has a role of training-operator's name may
// do with TFJobs what it says, in one namespace, and no more.
func TestUsersRolesAreThoseOfKubeflow(t *testing.T) {
	namespace := newNamespace(t)
	for role, may := range map[string]string{
		"kubeflow-training-view": "get list watch",
		"kubeflow-training-edit": "get list watch create update patch delete",
	} {
		user := "user-of-" + role
		_, err := stage.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		}, metav1.CreateOptions{})
		must(t, err)
		for verb := range strings.FieldsSeq("get list watch create update patch delete") {
			expect(t, user, namespace, "kubeflow.org", "tfjobs", "", verb, strings.Contains(may, verb))
		}
		expect(t, user, namespace, "kubeflow.org", "tfjobs", "status", "get", true)
		expect(t, user, namespace, "kubeflow.org", "tfjobs", "status", "update", false)
		expect(t, user, namespace, "", "secrets", "", "get", false)
		expect(t, user, "default", "kubeflow.org", "tfjobs", "", "get", false)
		isEditor := strings.Contains(may, "create")
		expect(t, user, namespace, "", "persistentvolumeclaims", "", "create", isEditor)
		expect(t, user, namespace, "", "events", "", "list", isEditor)
		expect(t, user, namespace, "kueue.x-k8s.io", "localqueues", "", "list", isEditor)
	}

	// The cluster's controller fills in the administrators' role from these.
	admin, err := stage.Client.RbacV1().ClusterRoles().Get(t.Context(), "kubeflow-training-admin", metav1.GetOptions{})
	must(t, err)
	edit, err := stage.Client.RbacV1().ClusterRoles().Get(t.Context(), "kubeflow-training-edit", metav1.GetOptions{})
	must(t, err)
	if selectors := admin.AggregationRule.ClusterRoleSelectors; len(selectors) != 1 {
		t.Errorf("administrators get what %v select", selectors)
	} else if selector, err := metav1.LabelSelectorAsMap(&selectors[0]); err != nil || !contains(edit.Labels, selector) {
		t.Errorf("administrators get what %v selects, and editors' role has %v; %v", selector, edit.Labels, err)
	}
}

func contains(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

// expect asks the API server whether a user may do something.
func expect(t *testing.T, user, namespace, group, resource, subresource, verb string, want bool) {
	t.Helper()
	review, err := stage.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	if review.Status.Allowed != want {
		t.Errorf("%s in %s: %s %s is %v", user, namespace, verb, strings.Trim(fmt.Sprintf("%s.%s/%s", resource, group, subresource), "./"), review.Status.Allowed)
	}
}

// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// domainOf is the value of the label tutti.NVLinkDomainLabel for a node of this fabric: nodes that
// reach each other over NVLink have the same. Empty without a fabric.
func domainOf(fabric *v1alpha1.Fabric) string {
	if fabric == nil {
		return ""
	}
	domain := fabric.ClusterUUID + "." + strconv.FormatInt(fabric.CliqueID, 10)
	if len(validation.IsValidLabelValue(domain)) > 0 { // described by hand
		sum := sha256.Sum256([]byte(domain))
		domain = "x" + hex.EncodeToString(sum[:16])
	}
	return domain
}

// labelPatch sets the label, or takes it away.
func labelPatch(domain string) []byte {
	var value *string
	if domain != "" {
		value = &domain
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]*string{tutti.NVLinkDomainLabel: value}}})
	if err != nil {
		panic(err) // strings can be marshalled
	}
	return patch
}

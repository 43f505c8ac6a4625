// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package page serves a page to look at: the fabric with its hosts and GPUs, who
// has them, which gangs wait and why. It answers what a browser may see and to
// whom; it must not know where the objects come from nor how a plan is made,
// which its user passes as functions.
//
//	View   the objects at one moment
//	State  what is drawn of them, as JSON
//	New    the handler: the page's files, the state, plans
//
// The page's files are plain HTML, CSS and JavaScript modules in web/, embedded
// as they are.
package page

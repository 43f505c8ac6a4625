// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// teach makes the command, and those under it, say where help is when they are not understood.
func teach(root *cobra.Command) {
	root.SuggestionsMinimumDistance = 2
	root.DisableFlagsInUseLine = true
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		meant := ""
		if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
			meant = "; did you mean " + strings.Join(names, " or ") + "?"
		}
		return fmt.Errorf("there is no command %q%s; kubectl tutti --help lists them", args[0], meant)
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
}

// noArguments is for commands that only have flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes flags alone, and was given %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

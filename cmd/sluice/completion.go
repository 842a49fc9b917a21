package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// newCompletion prints what a shell needs to complete commands and flags.
func newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion of a shell",
		Long: "Print the completion of a shell. In bash, with the package bash-completion:\n" +
			"source <(sluice completion bash)",
		ValidArgs: shells,
		Args:      usage(oneShell),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			}
			return fmt.Errorf("no completion for %q", args[0]) // cannot be: see Args
		},
	}
}

// oneShell takes one of the shells that are known.
func oneShell(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || !slices.Contains(cmd.ValidArgs, args[0]) {
		return fmt.Errorf("name one shell: %s", strings.Join(cmd.ValidArgs, ", "))
	}
	return nil
}

// newMan prints the manual page.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man",
		Short: "Print the manual page; to read it: sluice man | man -l -",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), manual(newRoot())) // one whose flags no run has added to
			return err
		},
	}
}

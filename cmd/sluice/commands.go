package main

import (
	"errors"
	"fmt"
	"strings"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/demo"

	"github.com/spf13/cobra"
)

// usageError is a mistake on the command line.
type usageError struct{ error }

// usage marks the error of check as a mistake on the command line.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "A layer-4 load balancer for raw TCP services",
		Args:          usage(knownCommand),
		RunE:          helpOrVersion,
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(wrongFlag)
	root.Flags().BoolP("version", "v", false, "version for sluice")
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newRun(), newCheck(), newPlan(), newDiff(), newExplain(), newDemo(), newVersion(), newMan())
	for _, c := range root.Commands() {
		c.Args = usage(noArgument)
	}
	root.AddCommand(newCompletion(), newRebalance())
	return root
}

// helpOrVersion is sluice without a command. The version is not cobra's: a template
// for it brings text/template in, which may call any method by its name, so that the
// linker keeps those of every library. The binary would be half as large again.
func helpOrVersion(cmd *cobra.Command, _ []string) error {
	if wanted, _ := cmd.Flags().GetBool("version"); !wanted {
		return cmd.Help()
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), fullVersion())
	return err
}

// wrongFlag is a mistake in a flag. Other balancers name their file by -f.
func wrongFlag(cmd *cobra.Command, err error) error {
	if strings.HasPrefix(err.Error(), "unknown shorthand flag: 'f'") && cmd.Flags().Lookup("config") != nil {
		err = errors.New("unknown flag: -f; -c names the configuration file")
	}
	return usageError{err}
}

// noArgument refuses arguments. One of a command that reads a configuration is
// most likely its path.
func noArgument(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Lookup("config") == nil:
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return fmt.Errorf("unexpected argument %q; to name a configuration file: %s -c %s", args[0], cmd.CommandPath(), args[0])
}

// knownCommand is reached with an argument only if that is no command.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := cmd.SuggestionsFor(args[0])
	if len(near) == 0 {
		return fmt.Errorf("unknown command %q", args[0])
	}
	return fmt.Errorf("unknown command %q; did you mean %s?", args[0], strings.Join(near, " or "))
}

// configFlag adds -c.
func configFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().StringP("config", "c", "config.toml", "configuration `file`")
	_ = cmd.MarkFlagFilename("config", "toml") // for completion; it has just been made
	return path
}

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve until SIGTERM or SIGINT; SIGHUP reads the configuration again",
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return serve(cmd.Context(), *path, cmd.ErrOrStderr())
	}
	return cmd
}

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Report every mistake in the configuration, with its line",
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := config.Load(*path)
		if err != nil {
			return err
		}
		for _, w := range c.Warnings {
			cmd.PrintErrln("warning:", w)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", *path)
		return nil
	}
	return cmd
}

func newDemo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a balancer at work in front of three backends inside this process",
	}
	once := cmd.Flags().Bool("once", false, "exit after the show")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return runDemo(cmd.Context(), demo.Options{
			Out:     cmd.OutOrStdout(),
			Log:     cmd.ErrOrStderr(),
			Version: version(),
			Once:    *once,
		})
	}
	return cmd
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), fullVersion())
			return err
		},
	}
}

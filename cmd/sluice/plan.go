package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"sluice/admin"
	"sluice/cmd/sluice/internal/remote"
	"sluice/pool"

	"github.com/spf13/cobra"
)

// planSize bounds what is read of a file: somewhat more than the balancer takes,
// which then says so.
const planSize = 5 << 20

func newPlan() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what a reload with this configuration would change, and which sessions it touches",
	}
	at := adminFlags(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the answer of the admin side")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		done, err := askPlan(cmd.Context(), *at)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), done)
		}
		return printPlan(cmd.OutOrStdout(), done)
	}
	return cmd
}

// askPlan sends the text of o.Config to a balancer for a dry run.
func askPlan(ctx context.Context, o remote.Options) (done admin.Reloaded, err error) {
	text, err := readText(o.Config)
	if err != nil {
		return done, err
	}
	client, err := remote.New(o)
	if err != nil {
		return done, err
	}
	err = client.Call(ctx, "POST", "/reload?dry_run=true", text, &done)
	for i, w := range done.Warnings {
		done.Warnings[i] = named(w, o.Config)
	}
	var refused *remote.Refused
	if errors.As(err, &refused) {
		err = errors.New(named(refused.Text, o.Config))
	}
	return done, err
}

// named puts the path of a file where the balancer, which got its text alone, has
// a name of its own.
func named(text, path string) string { return strings.ReplaceAll(text, admin.Sent+":", path+":") }

func readText(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, planSize))
	if err == nil && len(strings.TrimSpace(string(text))) == 0 {
		err = fmt.Errorf("%s is empty", path)
	}
	return text, err
}

// signs stand for what happens to a thing.
var signs = map[string]string{"added": "+", "removed": "-", "altered": "~", "regained": "+"}

// printPlan writes a plan for people.
func printPlan(w io.Writer, done admin.Reloaded) error {
	var out strings.Builder
	counts := map[string]int{}
	for _, e := range done.Plan {
		counts[e.Change]++
		printEdit(&out, e)
	}
	if len(done.Plan) == 0 {
		fmt.Fprintf(&out, "no change: generation %d runs this\n", done.Generation)
	} else {
		fmt.Fprintf(&out, "%d added, %d removed, %d altered; nothing was done, generation %d runs\n",
			counts["added"], counts["removed"], counts["altered"], done.Generation)
	}
	for _, text := range done.RestartNeeded {
		fmt.Fprintln(&out, "needs a restart:", text)
	}
	for _, text := range done.Unknown {
		fmt.Fprintln(&out, "unknown:", text)
	}
	for _, text := range done.Warnings {
		fmt.Fprintln(&out, "warning:", text)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// printEdit writes one thing, and below it the keys of it that change.
func printEdit(out *strings.Builder, e pool.Edit) {
	name := strings.TrimSpace(e.Kind + " " + e.Name)
	if e.Pool != "" {
		name += " of pool " + e.Pool + " (" + e.Address + ")"
	}
	fmt.Fprintf(out, "%s %s", cmp.Or(signs[e.Change], "?"), name)
	if e.Note != "" {
		out.WriteString(", " + e.Note)
	}
	switch {
	case e.Sessions == 1:
		fmt.Fprintf(out, ": 1 session, to %s", singular(e.Fate))
	case e.Sessions > 1:
		fmt.Fprintf(out, ": %d sessions %s", e.Sessions, e.Fate)
	}
	out.WriteByte('\n')
	for _, k := range e.Keys {
		fmt.Fprintln(out, "    "+k.String())
	}
}

// singular is a fate of one session after "to".
func singular(fate string) string {
	if fate == pool.FateClose {
		return "be closed"
	}
	return fate
}

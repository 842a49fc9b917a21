package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/admin"
	"sluice/cmd/sluice/internal/remote"
	"sluice/pool"

	"github.com/spf13/cobra"
)

// explain is one call of the command.
type explain struct {
	at           *remote.Options
	json, events bool
	pool, client string
}

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Show which backend a new session would get, and why not each of the others",
		Long: "Asks a running balancer which backend a new session would get now, and why not each\n" +
			"of the others. It changes nothing.",
		Example: "sluice explain --pool db --client 10.0.0.7 --events",
	}
	x := explain{at: adminFlags(cmd)}
	cmd.Flags().StringVar(&x.pool, "pool", "", "only this `pool` (default: all of them)")
	cmd.Flags().StringVar(&x.client, "client", "", "`IP` address of the client, where the strategy goes by it")
	cmd.Flags().BoolVar(&x.events, "events", false, "show what happened to the backends of late, too")
	cmd.Flags().BoolVar(&x.json, "json", false, "print the answer of the admin side")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return x.run(cmd.Context(), cmd.OutOrStdout()) }
	return cmd
}

func (x *explain) run(ctx context.Context, out io.Writer) error {
	c, err := remote.New(*x.at)
	if err != nil {
		return err
	}
	names := []string{x.pool}
	if x.pool == "" {
		if names, err = poolNames(ctx, c); err != nil {
			return err
		}
	}
	for i, name := range names {
		if i > 0 && !x.json {
			fmt.Fprintln(out)
		}
		if err := x.show(ctx, c, name, out); err != nil {
			return err
		}
	}
	return nil
}

// show asks about one pool, and writes the answer.
func (x *explain) show(ctx context.Context, c *remote.Client, name string, out io.Writer) error {
	query := url.Values{"pool": {name}, "events": {"0"}}
	if x.events {
		query.Set("events", "all")
	}
	if x.client != "" {
		query.Set("client", x.client)
	}
	var answer admin.Explained
	if err := c.Call(ctx, http.MethodGet, "/explain?"+query.Encode(), nil, &answer); err != nil {
		return err
	}
	if x.json {
		return printJSON(out, answer)
	}
	_, err := io.WriteString(out, explanation(answer, time.Local))
	return err
}

// explanation is an answer for people: what becomes of a session, the backends,
// and, if the answer has them, the events.
func explanation(x admin.Explained, in *time.Location) string {
	var out strings.Builder
	fmt.Fprintf(&out, "pool %s, %s, %s\n%s\n", x.Pool, x.Strategy, x.At.In(in).Format(time.DateTime), x.Text)
	for _, n := range x.Notes {
		fmt.Fprintln(&out, "note:", n)
	}
	if x.Queue.Max > 0 {
		fmt.Fprintf(&out, "queue: %d of %d wait\n", x.Queue.Waiting, x.Queue.Max)
	}
	out.WriteByte('\n')
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BACKEND\tADDRESS\tSESSIONS\tWEIGHT\tREASON")
	for _, r := range pickFirst(x.Backends) {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%s\n", r.ID, r.Address, r.Active, r.Weight, r.Word, r.Text+times(r, x.At, in))
	}
	if list := timeline(x.Backends); len(list) > 0 {
		fmt.Fprintln(table, "\nFIRST\tLAST\tTIMES\tBACKEND\tEVENT")
		for _, e := range list {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", moment(e.First, in), moment(e.Last, in), e.Count, e.backend, e.Kind, e.Text)
		}
	}
	table.Flush()
	return out.String()
}

// pickFirst returns the backends with the one on top that would be picked.
func pickFirst(all []pool.Reason) []pool.Reason {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b pool.Reason) int {
		return cmp.Compare(rank(a), rank(b))
	})
	return all
}

func rank(r pool.Reason) int {
	switch {
	case r.Word == pool.Picked:
		return 0
	case r.Eligible:
		return 1
	}
	return 2
}

// times says since and until when a reason holds, as far as it is known.
func times(r pool.Reason, at time.Time, in *time.Location) (text string) {
	if !r.Since.IsZero() {
		text = fmt.Sprintf(", since %s (%s ago)", moment(r.Since, in), short(at.Sub(r.Since)))
	}
	if r.Until.After(at) {
		text += fmt.Sprintf(", until %s (in %s)", moment(r.Until, in), short(r.Until.Sub(at)))
	}
	return text
}

func moment(t time.Time, in *time.Location) string { return t.In(in).Format("01-02 15:04:05.000") }

// short is a duration as people say it.
func short(d time.Duration) string {
	if d >= time.Second {
		d = d.Round(time.Second)
	}
	return max(d, 0).Round(time.Millisecond).String()
}

// told is an event of a backend.
type told struct {
	backend string
	pool.Event
}

// timeline is what happened to all backends, in the order in which it began.
func timeline(all []pool.Reason) (list []told) {
	for _, r := range all {
		for _, e := range r.Events {
			list = append(list, told{r.ID, e})
		}
	}
	slices.SortStableFunc(list, func(a, b told) int { return a.First.Compare(b.First) })
	return list
}

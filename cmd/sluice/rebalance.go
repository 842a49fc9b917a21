package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/admin/rebalance"
	"sluice/cmd/sluice/internal/remote"
	"sluice/pool"

	"github.com/spf13/cobra"
)

// mover is one call of the command rebalance.
type mover struct {
	at                      *remote.Options
	rate, target            int
	minAge, minIdle         time.Duration
	dry, status, stop, json bool
}

func newRebalance() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rebalance [POOL]",
		Short: "Close the most idle sessions of backends with too many, so that their clients spread",
		Long: "Has a running balancer close the most idle sessions of the backends that have more\n" +
			"than their share, some a second, until the pool is even. It goes on in the background;\n" +
			"--status shows how far it is. POOL is the only one, unless it is named.",
		Example: "sluice rebalance db --dry-run\nsluice rebalance db --rate 5 --min-idle 30s\nsluice rebalance db --status",
		Args:    usage(cobra.MaximumNArgs(1)),
	}
	m := mover{at: adminFlags(cmd)}
	cmd.Flags().IntVar(&m.rate, "rate", 10, "close so many sessions a second")
	cmd.Flags().IntVar(&m.target, "target", 10, "so many `percent` above its fair share a backend may keep")
	cmd.Flags().DurationVar(&m.minAge, "min-age", 0, "spare sessions that are younger")
	cmd.Flags().DurationVar(&m.minIdle, "min-idle", 0, "spare sessions that moved something within this time")
	cmd.Flags().BoolVar(&m.dry, "dry-run", false, "only show what would be closed")
	cmd.Flags().BoolVar(&m.status, "status", false, "show how the last one goes, or went")
	cmd.Flags().BoolVar(&m.stop, "stop", false, "stop the one that runs")
	cmd.Flags().BoolVar(&m.json, "json", false, "print the answer of the admin side")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if m.dry && m.status || m.dry && m.stop || m.status && m.stop {
			return usageError{errors.New("--dry-run, --status and --stop exclude each other")}
		}
		return m.run(cmd.Context(), cmd.OutOrStdout(), strings.Join(args, ""))
	}
	return cmd
}

func (m *mover) run(ctx context.Context, out io.Writer, name string) error {
	c, err := remote.New(*m.at)
	if err != nil {
		return err
	}
	if name, err = onlyPool(ctx, c, name); err != nil {
		return err
	}
	method, body := http.MethodPost, any(map[string]any{
		"rate": m.rate, "target": m.target, "min_age": m.minAge.String(), "min_idle": m.minIdle.String(), "dry_run": m.dry,
	})
	switch {
	case m.status:
		method, body = http.MethodGet, nil
	case m.stop:
		method, body = http.MethodDelete, nil
	}
	var p rebalance.Progress
	if err := c.Call(ctx, method, "/pools/"+url.PathEscape(name)+"/rebalance", body, &p); err != nil {
		return err
	}
	if m.json {
		return printJSON(out, p)
	}
	_, err = io.WriteString(out, movement(p))
	return err
}

// onlyPool returns name, or the name of the only pool if it is empty.
func onlyPool(ctx context.Context, c *remote.Client, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	names, err := poolNames(ctx, c)
	if err != nil {
		return "", err
	}
	if len(names) != 1 {
		return "", fmt.Errorf("name one of the pools: %s", strings.Join(names, ", "))
	}
	return names[0], nil
}

// poolNames asks for the names of all pools.
func poolNames(ctx context.Context, c *remote.Client) (names []string, err error) {
	var status struct{ Pools []pool.Status }
	err = c.Call(ctx, http.MethodGet, "/status", nil, &status)
	for _, p := range status.Pools {
		names = append(names, p.Name)
	}
	return names, err
}

// movement is a progress for people.
func movement(p rebalance.Progress) string {
	var out strings.Builder
	fmt.Fprintf(&out, "pool %s: %s", p.Pool, p.State)
	if p.Reason != "" {
		fmt.Fprintf(&out, " (%s)", p.Reason)
	}
	fmt.Fprintf(&out, "; %d sessions were too many at first, %d are closed, %d are too many now; %d a second, %d %% above a fair share stay\n",
		p.Surplus, p.Closed, p.Remaining, p.Rate, p.Target)
	for _, b := range p.Backends {
		fmt.Fprintf(&out, "  %s: %d sessions", b.ID, b.Active)
		if !b.Eligible {
			out.WriteString(", gets no new ones, and its own are left alone\n")
			continue
		}
		fmt.Fprintf(&out, ", fair share %g, %d to close, %d closed\n", b.Fair, b.ToClose, b.Closed)
	}
	return out.String()
}

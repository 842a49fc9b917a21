package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/admin"
	"sluice/cmd/sluice/internal/remote"
	"sluice/pool"

	"github.com/spf13/cobra"
)

// errDiffer ends a diff that has found something, as that of diff(1) ends.
var errDiffer = errors.New("what runs is not what the file says")

// troubleError is a failure of a command whose status 1 means something else.
type troubleError struct{ error }

// adminFlags adds the flags that say where the admin side of a running balancer
// is.
func adminFlags(cmd *cobra.Command) *remote.Options {
	o := &remote.Options{}
	cmd.Flags().StringVarP(&o.Config, "config", "c", "config.toml", "configuration `file`")
	cmd.Flags().StringVar(&o.Admin, "admin", "", "`address` of the admin side: http://host:port, host:port or unix:/path (default: that of the configuration)")
	cmd.Flags().StringVar(&o.TokenFile, "token-file", "", "`file` with a token for it (default: that of the configuration)")
	return o
}

// printJSON writes a value as people can read it, too.
func printJSON(out io.Writer, value any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// diff is one call of the command.
type diff struct {
	at            *remote.Options
	json, forget  bool
	pool, backend string
}

func newDiff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Show what runs and is not what the file says, or make it what the file says",
		Long: "Asks a running balancer for every difference between the configuration file that is\n" +
			"in force and what runs: what the API changed, and what waits for a restart.\n\n" +
			"Exit status: 0 no difference, or it was forgotten; 1 there are some; 2 trouble.",
	}
	d := diff{at: adminFlags(cmd)}
	cmd.Flags().BoolVar(&d.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&d.forget, "forget", false, "forget what the API changed")
	cmd.Flags().StringVar(&d.pool, "pool", "", "only of this `pool`")
	cmd.Flags().StringVar(&d.backend, "backend", "", "only of the backend with this `id`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := d.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		if err != nil && !errors.Is(err, errDiffer) {
			return troubleError{err}
		}
		return err
	}
	return cmd
}

func (d *diff) run(ctx context.Context, out, warnings io.Writer) error {
	c, err := remote.New(*d.at)
	if err != nil {
		return err
	}
	if d.forget {
		return d.runForget(ctx, c, out)
	}
	var status struct {
		admin.About
		Pools       []pool.Status     `json:"pools"`
		Differences []pool.Difference `json:"differences"`
	}
	if err := c.Call(ctx, http.MethodGet, "/status", nil, &status); err != nil {
		return err
	}
	warn(warnings, status.About)
	if err := d.find(status.Pools); err != nil {
		return err
	}
	list := slices.DeleteFunc(status.Differences, func(e pool.Difference) bool {
		return d.pool != "" && e.Pool != d.pool || d.backend != "" && e.Backend != d.backend
	})
	if err := d.print(out, "differences", "", list); err != nil {
		return err
	}
	if len(list) > 0 {
		return errDiffer
	}
	return nil
}

// find makes sure that there is what the flags name: a name with a typo in it
// has no differences.
func (d *diff) find(pools []pool.Status) error {
	if d.pool != "" {
		pools = slices.DeleteFunc(pools, func(p pool.Status) bool { return p.Name != d.pool })
	}
	has := func(p pool.Status) bool {
		named := func(b pool.BackendStatus) bool { return b.ID == d.backend }
		return slices.ContainsFunc(p.Backends, named) || slices.Contains(p.DeletedByAPI, d.backend)
	}
	switch {
	case len(pools) == 0 && d.pool != "":
		return fmt.Errorf("no such pool: %q", d.pool)
	case d.backend != "" && !slices.ContainsFunc(pools, has):
		return fmt.Errorf("no such backend: %q", d.backend)
	}
	return nil
}

func (d *diff) runForget(ctx context.Context, c *remote.Client, out io.Writer) error {
	query := url.Values{}
	for key, value := range map[string]string{"pool": d.pool, "backend": d.backend} {
		if value != "" {
			query.Set(key, value)
		}
	}
	var answer struct {
		Forgotten []pool.Difference `json:"forgotten"`
	}
	if err := c.Call(ctx, http.MethodDelete, "/overrides?"+query.Encode(), nil, &answer); err != nil {
		return err
	}
	return d.print(out, "forgotten", "forgotten: ", answer.Forgotten)
}

// print writes a list: as JSON under a name, or one line each after a word.
func (d *diff) print(out io.Writer, name, word string, list []pool.Difference) error {
	if d.json {
		return printJSON(out, map[string][]pool.Difference{name: list})
	}
	for _, e := range list {
		e.File, e.Running = plain(e.File), plain(e.Running)
		var where string
		if e.Pool != "" {
			where = "pool " + e.Pool + ": "
		}
		if _, err := fmt.Fprintf(out, "%s%s%s (%s)\n", word, where, e, origin(e)); err != nil {
			return err
		}
	}
	return nil
}

// plain gives a value its form back, of which JSON keeps less.
func plain(v any) any {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case map[string]any:
		var e pool.Entry
		if text, err := json.Marshal(v); err == nil && json.Unmarshal(text, &e) == nil {
			return e
		}
	}
	return v
}

// origin says what made a difference, and when.
func origin(e pool.Difference) string {
	switch {
	case e.Origin == "restart":
		return "needs a restart"
	case e.Since.IsZero():
		return "by the API"
	}
	return "by the API, " + e.Since.Local().Format(time.DateTime)
}

// warn tells of what makes a list of differences less than it seems.
func warn(to io.Writer, a admin.About) {
	if !a.LastReload.Successful {
		fmt.Fprintf(to, "warning: the file in force is an older one, the newest was refused: %s\n",
			strings.Join(a.LastReload.Errors, "; "))
	}
	if !a.StateFile.Saved {
		fmt.Fprintf(to, "warning: a restart would lose what the API changed: %s\n", a.StateFile.Error)
	}
}

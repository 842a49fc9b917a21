package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// manual returns the manual page of root and all its commands, in roff. What is
// common to all commands stands here; the rest is theirs.
func manual(root *cobra.Command) string {
	p := &page{}
	p.line(`.TH SLUICE 1 "" "%s" "User Commands"`, roff(version()))
	p.section("NAME", "sluice \\- "+roff(strings.ToLower(root.Short[:1])+root.Short[1:]))
	p.line(".SH SYNOPSIS")
	p.line(".B sluice\n.I command\n[\\fIflags\\fR]")
	p.line(".SH COMMANDS")
	p.commands(root)
	p.section("SIGNALS", "SIGHUP reads the configuration again. SIGTERM and SIGINT stop accepting, let the "+
		"sessions finish for process.drain_timeout at most, and end the process with status 0; a second one ends it "+
		"at once with status 1.")
	p.section("EXIT STATUS", "0: done, also after a drain. 1: the configuration is broken, an address cannot be bound, "+
		"what was asked for failed, or a second signal came. 2: the command line is wrong.")
	p.line(".SH FILES")
	p.item("/etc/sluice/config.toml", "The configuration of the packaged service. Every key is explained in the example "+
		"that is installed there.")
	p.item("/var/lib/sluice/state.json", "What the API changed, of the packaged service; elsewhere state.json beside the configuration.")
	p.line(".SH SEE ALSO")
	p.line(".BR systemd.service (5),\n.BR haproxy (1)")
	return p.text.String()
}

// page is a page in the making.
type page struct{ text strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

func (p *page) section(title, text string) { p.line(".SH %s\n%s", title, text) }

func (p *page) item(tag, text string) { p.line(".TP\n.B %s\n%s", roff(tag), roff(text)) }

// commands adds what is below parent and not hidden.
func (p *page) commands(parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		if !c.HasSubCommands() || c.Runnable() {
			p.command(c)
		}
		p.commands(c)
	}
}

func (p *page) command(c *cobra.Command) {
	text := c.Long
	if text == "" {
		text = c.Short
	}
	p.line(".SS %s", roff(c.UseLine()))
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		p.line(".PP\n%s", roff(paragraph))
	}
	if c.HasExample() {
		p.line(".PP\n.nf\n%s\n.fi", roff(c.Example))
	}
	if flags := c.LocalFlags().FlagUsages() + c.InheritedFlags().FlagUsages(); flags != "" {
		p.line(".PP\n.nf\n%s\n.fi", roff(strings.TrimRight(flags, "\n")))
	}
}

// roff escapes text: a line of it is never a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

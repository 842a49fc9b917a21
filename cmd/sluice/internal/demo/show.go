package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// beat is the rest between two acts, for the reader.
const beat = 600 * time.Millisecond

// show is what is on stage.
type show struct {
	out      io.Writer
	http     *http.Client
	tcp, web []*backend // A, B, C of each
	frontend string     // address
	admin    string     // address
}

// acts plays the show from the first act to the last.
func (s *show) acts(ctx context.Context) error {
	s.scene()
	for _, act := range []func(context.Context) error{
		s.rotation,
		s.failure(tcpPool, s.tcp[1], s.greet),
		s.recovery(tcpPool, s.tcp[1], s.greet),
		s.overHTTP,
		s.failure(webPool, s.web[1], s.get),
		s.recovery(webPool, s.web[1], s.get),
	} {
		pause(ctx, beat)
		if err := act(ctx); err != nil {
			return err
		}
	}
	s.say("\nEnd of the show: two backends failed and came back, and no client noticed.")
	return nil
}

func (s *show) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

func (s *show) scene() {
	s.say("Sluice is a load balancer for TCP. This process runs one, and in the role of your")
	s.say("services three TCP and three HTTP backends, called A, B and C:")
	s.say("")
	s.say("  TCP clients  -> %-28s -> A, B, C on ports %s", s.frontend, ports(s.tcp))
	s.say("  HTTP clients -> %-28s -> A, B, C on ports %s", "http://"+s.admin+"/proxy", ports(s.web))
}

func ports(bs []*backend) string {
	var list []string
	for _, b := range bs {
		_, port, _ := net.SplitHostPort(b.address)
		list = append(list, port)
	}
	return strings.Join(list, ", ")
}

func (s *show) rotation(ctx context.Context) error {
	s.say("\nRotation: four TCP connections to the frontend, and who greets each.")
	return s.ask(ctx, 4, s.greet)
}

func (s *show) overHTTP(ctx context.Context) error {
	s.say("\nThe same over HTTP: four times GET http://%s/proxy/demo", s.admin)
	return s.ask(ctx, 4, s.get)
}

// invite tells what to try with the balancer that goes on running.
func (s *show) invite() {
	_, port, _ := net.SplitHostPort(s.frontend)
	api := "http://" + s.admin
	s.say("\nThe balancer goes on running. Try, from another terminal:")
	s.say("")
	s.say("  nc 127.0.0.1 %-28s # a TCP session: the greeting, then an echo", port)
	s.say("  curl %s/proxy/hello   # an HTTP request; again: the next backend", api)
	s.say("  curl %s/status        # all of its state", api)
	s.say("")
	s.say("  # take A out of the rotation, and put it back")
	s.say("  curl -X PATCH '%s/backends/A?pool=%s' -d '{\"state\": \"drain\"}'", api, tcpPool)
	s.say("  curl -X PATCH '%s/backends/A?pool=%s' -d '{\"state\": \"ready\"}'", api, tcpPool)
	s.say("  # three of five new sessions to C")
	s.say("  curl -X PATCH '%s/backends/C?pool=%s' -d '{\"weight\": 3}'", api, tcpPool)
	s.say("  # another strategy, while it runs")
	s.say("  curl -X PATCH %s/pools/%s -d '{\"strategy\": \"least_connections\"}'", api, tcpPool)
	s.say("")
	s.say("Ctrl-C ends it.")
}

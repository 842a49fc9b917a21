package balancer

import (
	"sluice/cmd/internal/config"
	"sluice/l4"
	"sluice/l4/access"
	"sluice/l4/session"
)

// headerModes are the words of the file.
var headerModes = map[string]session.HeaderMode{
	"off": session.NoHeaders, "accept": session.AcceptHeaders, "require": session.RequireHeaders,
}

// admission translates what the file says of who may come in.
func admission(c config.Admission) l4.Admission {
	return l4.Admission{
		Allow:     access.NewSet(c.Allow),
		Deny:      access.NewSet(c.Deny),
		PerClient: access.Limits{Sessions: c.SessionsPerClient, Rate: c.RatePerClient},
		Headers: session.HeaderRules{
			Mode:    headerModes[c.Header],
			From:    access.NewSet(c.HeaderFrom),
			Timeout: c.HeaderTimeout,
		},
	}
}

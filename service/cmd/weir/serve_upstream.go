package main

import (
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/certfile"
	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/daemon"
	"github.com/weir-go/weir/service/internal/inputfile"
	"github.com/weir-go/weir/service/internal/server/tier"
	"github.com/weir-go/weir/service/internal/upstream"
)

// serveUpstream makes the instance a leaf of another one.
type serveUpstream struct {
	UpstreamURL        string        `name:"upstream" env:"WEIR_UPSTREAM" placeholder:"URL" help:"Be a leaf of this weir serve, http://host:port or https://host:port, which has the same rules: decide by parts of the limits that it assigns, without a round trip."`
	UpstreamToken      string        `hidden:"" env:"WEIR_UPSTREAM_TOKEN" help:"The token for --upstream. Prefer the variable or --upstream-token-file: others on the host can read flags."`
	UpstreamTokenFile  string        `needs:"upstream" placeholder:"FILE" help:"A file with the token for --upstream, or set it in $WEIR_UPSTREAM_TOKEN. The token must allow decide and lease for all keys."`
	UpstreamCA         string        `needs:"upstream" name:"upstream-ca" placeholder:"FILE" help:"Trust this authority for --upstream, instead of those of the system."`
	UpstreamCert       string        `needs:"upstream" name:"upstream-cert" placeholder:"FILE" help:"Show this certificate to --upstream."`
	UpstreamKey        string        `needs:"upstream" name:"upstream-key" placeholder:"FILE" help:"The private key of --upstream-cert."`
	UpstreamTimeout    time.Duration `needs:"upstream" least:"1ms" default:"100ms" placeholder:"TIME" help:"How long a decision may take at --upstream, for keys without an assignment, leases and quotas of requests. After that, the instance decides by itself (${default})."`
	UpstreamAway       config.Away   `needs:"upstream" default:"share" enum:"deny,allow,share" placeholder:"HOW" help:"How to decide while --upstream does not answer and the last assignment has ended, for rules that do not say (away): share divides the limits by the number of leaves; allow, or deny (${default})."`
	UpstreamLeaves     int           `needs:"upstream" least:"1" default:"1" placeholder:"N" help:"The least number of leaves to divide the limits by, until --upstream tells more (${default})."`
	UpstreamAssignFrom float64       `needs:"upstream" least:"0" default:"10" placeholder:"RATE" help:"Decide by assignments under rules of this many tokens a second or more. --upstream is asked about each request under a slower rule (${default})."`
}

// maxToken bounds a file with a token, in bytes.
const maxToken = 4 << 10

// checkUpstream checks the flags of the upstream.
func (c *serveCmd) checkUpstream() error {
	switch {
	case c.UpstreamURL != "" && c.StoreURL != "":
		return cli.Usagef("--upstream and --store exclude each other: let the upstream have the store")
	case c.UpstreamURL != "" && c.State != "":
		return cli.Usagef("--upstream and --state exclude each other: with an upstream, counts and leases are there")
	case c.UpstreamTokenFile != "" && c.UpstreamToken != "":
		return cli.Usagef("--upstream-token-file and $WEIR_UPSTREAM_TOKEN exclude each other")
	case (c.UpstreamCert == "") != (c.UpstreamKey == ""):
		return cli.Usagef("--upstream-cert and --upstream-key: give both, or none")
	}
	return nil
}

// dial returns the upstream; nil if there is none.
func (c *serveUpstream) dial() (*daemon.Upstream, error) {
	if c.UpstreamURL == "" {
		return nil, nil
	}
	to := &daemon.Upstream{
		Exchanges: upstream.Config{URL: c.UpstreamURL, Token: c.UpstreamToken},
		Config:    tier.Config{Timeout: c.UpstreamTimeout, Away: c.UpstreamAway, Leaves: c.UpstreamLeaves, AssignFrom: c.UpstreamAssignFrom},
	}
	if c.UpstreamAssignFrom == 0 {
		to.Config.AssignFrom = -1
	}
	if c.UpstreamTokenFile != "" {
		var err error
		if to.Exchanges.Token, err = readToken(c.UpstreamTokenFile); err != nil {
			return nil, err
		}
	}
	certs, err := certfile.Open(certfile.Files{Cert: c.UpstreamCert, Key: c.UpstreamKey, CA: c.UpstreamCA})
	if err != nil {
		return nil, cli.Usagef("--upstream-ca, --upstream-cert, --upstream-key: %v", err)
	}
	to.Exchanges.TLS = certs.Client("")
	if err := to.Exchanges.Validate(); err != nil {
		return nil, cli.Usagef("--upstream: %v", strings.TrimPrefix(err.Error(), "upstream: "))
	}
	return to, nil
}

// readToken reads the file of --upstream-token-file.
func readToken(path string) (string, error) {
	text, err := inputfile.Read(path, maxToken)
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", cli.Usagef("--upstream-token-file: %v", err)
	case token == "":
		return "", cli.Usagef("--upstream-token-file: %s: it is empty", path)
	}
	return token, nil
}

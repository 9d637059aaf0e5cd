package main

import (
	"crypto/tls"
	"strings"
	"time"

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
	UpstreamTokenFile  string        `placeholder:"FILE" help:"A file with the token for --upstream, or set it in $WEIR_UPSTREAM_TOKEN. The token must allow decide and lease for all keys."`
	UpstreamCA         string        `name:"upstream-ca" placeholder:"FILE" help:"Trust this authority for --upstream, instead of those of the system."`
	UpstreamCert       string        `name:"upstream-cert" placeholder:"FILE" help:"Show this certificate to --upstream."`
	UpstreamKey        string        `name:"upstream-key" placeholder:"FILE" help:"The private key of --upstream-cert."`
	UpstreamTimeout    time.Duration `least:"1ms" default:"100ms" placeholder:"TIME" help:"How long a decision may take at --upstream, for keys without an assignment, leases and quotas of requests. After that, the instance decides by itself (${default})."`
	UpstreamAway       config.Away   `default:"share" enum:"deny,allow,share" placeholder:"HOW" help:"How to decide while --upstream does not answer and the last assignment has ended, for rules that do not say (away): share divides the limits by the number of leaves; allow, or deny (${default})."`
	UpstreamLeaves     int           `least:"1" default:"1" placeholder:"N" help:"The least number of leaves to divide the limits by, until --upstream tells more (${default})."`
	UpstreamAssignFrom float64       `least:"0" default:"10" placeholder:"RATE" help:"Decide by assignments under rules of this many tokens a second or more. --upstream is asked about each request under a slower rule (${default})."`
}

// maxToken bounds a file with a token, in bytes.
const maxToken = 4 << 10

// withoutUpstream returns a flag that has no effect without --upstream; "" if none is given.
func (c *serveUpstream) withoutUpstream() string {
	if c.UpstreamURL != "" {
		return ""
	}
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"--upstream-token-file", c.UpstreamTokenFile != ""}, {"--upstream-ca", c.UpstreamCA != ""}, {"--upstream-cert", c.UpstreamCert != ""},
		{"--upstream-key", c.UpstreamKey != ""}, {"--upstream-timeout", c.UpstreamTimeout != tier.DefaultTimeout},
		{"--upstream-away", c.UpstreamAway != config.AwayShare}, {"--upstream-leaves", c.UpstreamLeaves != 1},
		{"--upstream-assign-from", c.UpstreamAssignFrom != tier.DefaultAssignFrom},
	} {
		if f.given {
			return f.name
		}
	}
	return ""
}

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
	if flag := c.withoutUpstream(); flag != "" {
		return cli.Usagef("%s needs --upstream", flag)
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
	var err error
	if c.UpstreamTokenFile != "" {
		text, err := inputfile.Read(c.UpstreamTokenFile, maxToken)
		if err != nil {
			return nil, cli.Usagef("--upstream-token-file: %v", err)
		}
		if to.Exchanges.Token = strings.TrimSpace(string(text)); to.Exchanges.Token == "" {
			return nil, cli.Usagef("--upstream-token-file: %s: it is empty", c.UpstreamTokenFile)
		}
	}
	if to.Exchanges.TLS, err = c.tls(); err != nil {
		return nil, err
	}
	if err := to.Exchanges.Validate(); err != nil {
		return nil, cli.Usagef("--upstream: %v", strings.TrimPrefix(err.Error(), "upstream: "))
	}
	return to, nil
}

// tls returns the configuration of https.
func (c *serveUpstream) tls() (*tls.Config, error) {
	roots, err := inputfile.Authorities(c.UpstreamCA)
	if err != nil {
		return nil, cli.Usagef("--upstream-ca: %v", err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if c.UpstreamCert != "" {
		cert, err := tls.LoadX509KeyPair(c.UpstreamCert, c.UpstreamKey)
		if err != nil {
			return nil, cli.Usagef("--upstream-cert, --upstream-key: %v", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

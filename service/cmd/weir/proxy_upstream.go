package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/problem"
	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/config"
)

// proxyUpstream makes a proxy a leaf of a weir serve.
type proxyUpstream struct {
	UpstreamURL       string      `name:"upstream" env:"WEIR_UPSTREAM" placeholder:"URL" help:"Let each request take a token of --upstream-key from this weir serve, http://host:port or https://host:port, by parts of the limit that it assigns, without a round trip. A request beyond the limit gets 429."`
	UpstreamKey       string      `name:"upstream-key" needs:"upstream" placeholder:"KEY" help:"The key of which requests take tokens."`
	UpstreamTokenFile string      `placeholder:"FILE" help:"A file with the token for --upstream. It must allow decide for --upstream-key."`
	UpstreamAway      config.Away `default:"share" enum:"deny,allow,share" placeholder:"HOW" help:"How to decide while --upstream does not answer and the last assignment has ended: share divides the limit by the number of leaves, and allows all while --upstream has not told the limit; allow, or deny (${default})."`
	UpstreamLeaves    int         `least:"1" default:"1" placeholder:"N" help:"The least number of leaves to divide the limit by, until --upstream tells more (${default})."`
}

var proxyAway = map[config.Away]client.Away{config.AwayDeny: client.Deny, config.AwayAllow: client.Allow, config.AwayShare: client.Local}

// dial returns the client of the upstream; nil if there is none.
func (c *proxyUpstream) dial(onAway func(error)) (*client.Client, error) {
	switch {
	case c.UpstreamURL == "":
		return nil, nil
	case c.UpstreamKey == "":
		return nil, cli.Usagef("--upstream needs --upstream-key")
	}
	cfg := client.Config{URL: c.UpstreamURL, Leaf: &client.LeafConfig{}, Away: proxyAway[c.UpstreamAway], OnAway: onAway}
	if cfg.Away == client.Local {
		cfg.Instances = c.UpstreamLeaves
		cfg.LocalQuota = gcra.Unlimited() // the limit of requests in flight still protects the origin
	}
	if c.UpstreamTokenFile != "" {
		var err error
		if cfg.Token, err = readToken(c.UpstreamTokenFile); err != nil {
			return nil, err
		}
	}
	to, err := client.New(cfg)
	if err != nil {
		return nil, cli.Usagef("--upstream: %v", err)
	}
	return to, nil
}

// overQuota is the answer to a request that gets no token.
var overQuota = problem.New(http.StatusTooManyRequests, problem.QuotaExceeded, "over_rate", "the rate limit is reached")

// newUpstreamDecisions returns the counts of the decisions of takeTokens.
func newUpstreamDecisions() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_proxy_upstream_decisions_total",
		Help: "Decisions by tokens of --upstream-key: allow, deny, would_deny (in shadow mode), or undecided.",
	}, []string{"decision"})
}

// takeTokens returns a handler that takes a token for each request before next serves it. It calls refused for a
// request that it denies. In shadow mode, or if the client cannot decide, the request passes: the limit of
// requests in flight still protects the origin.
func takeTokens(from *client.Client, key string, shadow func() bool, decisions *prometheus.CounterVec, refused func(*http.Request), next http.Handler) http.Handler {
	allowed, denied := decisions.WithLabelValues("allow"), decisions.WithLabelValues("deny")
	wouldDeny, undecided := decisions.WithLabelValues("would_deny"), decisions.WithLabelValues("undecided")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch d, err := from.Take(r.Context(), key, 1); {
		case err != nil:
			undecided.Inc()
		case d.OK:
			allowed.Inc()
		case shadow():
			wouldDeny.Inc()
		default:
			denied.Inc()
			refused(r)
			overQuota.Write(w, r, problem.RetryAfter(d.RetryAfter))
			return
		}
		next.ServeHTTP(w, r)
	})
}

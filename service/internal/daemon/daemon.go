// Package daemon runs weir serve: it loads files, serves callers and operators,
// reloads files that change, saves the state, and drains before it ends.
package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/blackbox"
	"github.com/weir-go/weir/service/internal/certfile"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/daemon/leaflinks"
	"github.com/weir-go/weir/service/internal/daemon/statefile"
	"github.com/weir-go/weir/service/internal/decisionlog"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/logqueue"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/otlp"
	"github.com/weir-go/weir/service/internal/rulefile"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/shedding"
	"github.com/weir-go/weir/service/internal/supervisor"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
	"github.com/weir-go/weir/service/internal/transport/rlqsapi"
	"github.com/weir-go/weir/service/internal/transport/weirapi"
)

// Config configures a Daemon. The fields with a help text are flags.
type Config struct {
	Server server.Config // without Rules
	Store  *Store        // of shared limits; nil if there is none
	Peers  *Peers        // that share keys with this instance; nil if there are none
	// Upstream makes the instance a leaf of another one. If nil, it is none. There must not be a
	// Store or Peers.
	Upstream *Upstream

	API httpapi.Config // without Authorize

	Ports     int            // listeners of callers; if zero, 1
	RateLimit grpcapi.Config `embed:"" group:"envoy"` // without the fields that are not flags

	AssignmentTTL  time.Duration `name:"assignment-ttl" aliases:"rlqs-ttl" env:"WEIR_ASSIGNMENT_TTL,WEIR_RLQS_TTL" least:"1s" default:"30s" placeholder:"TIME" group:"leaves" help:"How long a leaf may use a rate that it was assigned without another exchange; for Envoy's rate limit quota service, at least twice its reporting interval. With away: share in a rule, a crashed leaf withholds its safe share for 10 times as long (${default})."`
	MaxAssignments int           `least:"1" default:"500000" placeholder:"N" group:"leaves" help:"Assignments at once, of all keys of all leaves. Each takes 300 bytes, or 750 if no other leaf uses the key, besides --memory. One leaf, or the leaves of a token for some keys, have at most half of them (${default})."`

	LoadRules func() (*config.Rules, error) // called again for each reload
	RulesPath string                        // the file or directory that LoadRules reads

	Tokens        string        `placeholder:"FILE" help:"A YAML file with the tokens of clients and what each may do. Without it, every client may use every endpoint, but /debug lists keys only to clients on loopback."`
	State         string        `placeholder:"FILE" help:"Save counts and leases to this file, and restore them at the next start."`
	StateInterval time.Duration `least:"1s" default:"10s" placeholder:"TIME" group:"stop" help:"How often to save the state while the server runs, in case it crashes. Saving takes at most 1 % of the time (${default})."`
	WatchInterval time.Duration `least:"1ms" default:"10s" placeholder:"TIME" group:"bounds" help:"How often to compare the content of files. Sizes and times are compared five times a second (${default})."`

	Decisions decisionlog.Settings `embed:"" group:"decisions"`

	TLS       TLS       `embed:"" group:"tls"`
	Operators Operators `embed:"" group:"operators"`

	Transport        string        `default:"std" enum:"std,inline" placeholder:"HOW" group:"bounds" help:"Server of HTTP at --listen: std is Go's; inline answers requests that do not wait on the goroutine of their connection, for much less processor time, if this instance has neither a store nor peers nor an upstream, and leaves all else to std (${default})."`
	MaxConnections   int           `least:"1" default:"10000" placeholder:"N" group:"bounds" help:"Connections of callers at once, at each listener. One address may have half of them, and at most as many as are free. Beyond that, a new connection replaces an idle one, or gets 503. Half as many requests may wait over all connections, a quarter decide without waiting, an eighth settle, renew or give back (${default})."`
	ClientTimeout    time.Duration `least:"1ms" default:"10s" placeholder:"TIME" group:"bounds" help:"How long a caller may take to send a header or a body, or to read an answer (${default})."`
	MaxConnectionAge time.Duration `least:"0s" default:"0s" placeholder:"TIME" group:"bounds" help:"How long a connection of HTTP or gRPC lives, give or take a tenth: then callers are asked to open another one, by Connection: close or GOAWAY, and requests in progress finish; 0s: for ever (${default})."`
	DrainDelay       time.Duration `least:"0s" default:"5s" placeholder:"TIME" group:"stop" help:"After SIGTERM or Ctrl-C: how long to serve as before, but not ready, and ask clients to leave; 0s if there are no connections (${default})."`
	Grace            time.Duration `least:"0s" default:"30s" placeholder:"TIME" group:"stop" help:"After that: how long waiting requests may still wait for their turn (${default})."`
	Drain            string        `default:"finish" enum:"finish,refuse" placeholder:"HOW" group:"stop" help:"After SIGTERM or Ctrl-C: finish lets waiting requests get their turn, refuse rejects them at once (${default})."`

	Box        *blackbox.Box // of leases, and of requests that may wait; nil: nothing is recorded
	LogAnswers [6]bool       // whether to log answers, by the first digit of the status
	Log        *slog.Logger
	Export     *otlp.Exporter         // of metrics and traces; nil if there is none
	Version    string                 // of weir, for clients of Redis
	Collectors []prometheus.Collector // of further metrics of the process
}

// Operators configures the listener of operators.
type Operators struct {
	AdminTokens string   `placeholder:"FILE" help:"A YAML file with the tokens of operators: each request needs one that allows admin, or metrics for /metrics alone; /-/health and /-/ready need none."`
	AdminTLS    bool     `name:"admin-tls" help:"Serve TLS to operators too, with the certificate of --tls-cert."`
	AdminHost   []string `placeholder:"NAME" help:"Names by which browsers and scrapers may call the listener of operators, besides its addresses, names without a dot, and those of private domains. On loopback: besides localhost."`
	Pprof       bool     `help:"Serve /debug/pprof/ to operators."`
}

// A Daemon is a running weir serve.
type Daemon struct {
	cfg       Config
	log       *slog.Logger
	watcher   *rulefile.Watcher
	server    *server.Server
	shared    *server.Shared // nil without a store
	tier      *tier          // nil without an upstream
	leaves    *leaflinks.Links
	node      string // a random id of the process
	fleet     *fleet // nil without peers
	decider   decider.Decider
	asked     decider.Decider // by transports: decider, or one that records
	decisions *decisionlog.Recording
	api       *httpapi.API
	exemplars *metric.Exemplars // of the times of decisions
	rls       *grpcapi.API
	rlqs      *rlqsapi.API
	weir      *weirapi.API
	guard     token.Guard // of callers
	operators token.Guard
	reloads   reloads
	certs     *certfile.Set       // of callers and operators
	most      int                 // connections of callers
	conns     *connlimit.Listener // of callers
	public    publicServer
	grpc      grpcServer
	resp      respServer
	state     *statefile.File // nil without --state

	serving  atomic.Bool
	draining atomic.Bool
}

// New loads the files.
func New(cfg Config) (*Daemon, error) {
	d := &Daemon{cfg: cfg, log: cfg.Log, node: rand.Text(), exemplars: metric.NewExemplars(httpapi.LatencyBounds[:])}
	// Before the first load, so that no change after it is missed.
	d.watcher = rulefile.NewWatcher(cfg.paths(), cfg.WatchInterval)
	rules, access, err := cfg.load()
	var certErr error
	d.certs, certErr = certfile.Open(cfg.TLS.files())
	if err = errors.Join(err, cfg.TLS.named(certErr)); err != nil {
		return nil, err
	}
	d.cfg.Server.Recorder = cfg.Box.Recorder()
	d.cfg.Server.Rules, d.cfg.Server.AssignmentTTL, d.cfg.Server.MaxAssignments = rules, cfg.AssignmentTTL, cfg.MaxAssignments
	if err := d.newServer(); err != nil {
		return nil, err
	}
	if d.asked, d.decisions, err = cfg.Decisions.Record(d.decider); err != nil {
		return nil, err
	}
	d.state = statefile.New(cfg.State, d.server, d.log)
	d.reloads.log = logqueue.NewLatest(d.log)
	d.reloads.status = adminapi.ConfigStatus{Path: cfg.source(), Success: time.Now()}
	cfg.RateLimit.MaxConnectionAge = cfg.MaxConnectionAge
	cfg.API.Authorize, cfg.API.Client = d.guard.Authorize, d.guard.Client
	cfg.RateLimit.BodyTimeout, cfg.RateLimit.Identify = cfg.ClientTimeout, d.identify()
	d.most = connlimit.Fit(cfg.MaxConnections, max(cfg.Ports, 1), otherFiles, d.log)
	cfg.API.MaxRequests, cfg.API.Answered = d.most, cfg.answered(d.exemplars)
	if d.api, err = httpapi.New(d.asked, cfg.API); err != nil {
		return nil, err
	}
	if d.leaves, err = d.newLeafLinks(); err != nil {
		return nil, err
	}
	d.permit(access)
	cfg.RateLimit.Bodies, cfg.RateLimit.Answered = d.api.Limit(connlimit.Bodies), cfg.called()
	if d.rls, err = grpcapi.New(d.asked, cfg.RateLimit); err != nil {
		return nil, err
	}
	d.rlqs = rlqsapi.New(d.asked, rlqsapi.Config{MaxKey: cfg.API.MaxKey, Identify: d.rls.Identify})
	d.weir = weirapi.New(d.asked, weirapi.Config{
		MaxLimit: cfg.API.MaxLimit, MaxQueue: cfg.API.MaxQueue, MaxKey: cfg.API.MaxKey, Limit: d.api.Limit, Identify: d.rls.Identify,
	})
	return d, nil
}

// Listeners has the listeners of a Daemon.
type Listeners struct {
	Public net.Listener // HTTP, and gRPC over HTTP/2
	Admin  net.Listener // HTTP for operators
	GRPC   net.Listener // gRPC alone; nil if there is none
	RESP   net.Listener // clients of Redis; nil if there is none
}

// Close closes the listeners.
func (l *Listeners) Close() error {
	err := errors.Join(l.Public.Close(), l.Admin.Close())
	for _, more := range []net.Listener{l.GRPC, l.RESP} {
		if more != nil {
			err = errors.Join(err, more.Close())
		}
	}
	return err
}

// Run restores the state and serves callers and operators until ctx ends, and then
// drains. It closes the listeners.
func (d *Daemon) Run(ctx context.Context, at Listeners) error {
	defer d.disconnect()
	defer d.fleet.disconnect()
	unlock, err := d.state.Restore()
	if err != nil {
		return errors.Join(err, at.Close())
	}
	defer unlock()
	stopRecording, err := d.record()
	if err != nil {
		return errors.Join(err, at.Close())
	}
	defer stopRecording()
	d.conns = d.limited(at.Public, "h2", "http/1.1")
	defer d.conns.Close()
	if at.RESP != nil {
		if err := d.resp.listen(d, at.RESP); err != nil {
			return errors.Join(err, at.Close())
		}
		defer d.resp.conns.Close()
	}
	if at.GRPC != nil {
		d.grpc.listen(d, at.GRPC)
		defer d.grpc.stop()
	}
	stopAdmin, err := d.serveAdmin(at.Admin)
	if err != nil {
		return err
	}
	defer stopAdmin()
	if len(d.cfg.paths()) > 0 {
		go d.watcher.Run(ctx, d.reloadAndLog)
	}
	go d.state.SaveEvery(ctx, d.cfg.StateInterval)
	defer d.cfg.Box.Start(ctx, func(ctx context.Context) { shedding.Watch(ctx, d.server, d.cfg.Box.Note) })()
	defer supervisor.OnHangup(d.reloadAndLog)() // also without files: by default, SIGHUP ends the process
	d.announce(at.Public.Addr(), at.Admin.Addr())
	for _, more := range []net.Listener{at.GRPC, at.RESP} {
		if more != nil {
			d.warn(more.Addr())
		}
	}
	return d.serve(ctx)
}

// record records decisions until stop is called.
func (d *Daemon) record() (stop func(), err error) {
	of, now := &d.cfg.Server, d.server.Now
	if d.blocking() { // others decide, whose clocks differ
		now = nil
	}
	return d.decisions.Start(decisionlog.Info{Version: d.cfg.Version, MaxLimit: of.MaxLimit, MaxQueue: of.MaxQueue, OwnQuotas: of.OwnQuotas}, now, d.log)
}

// limited returns a listener of callers with bounds and, if there is a certificate, TLS, with the names of the protocols after it.
func (d *Daemon) limited(ln net.Listener, protocols ...string) *connlimit.Listener {
	l := connlimit.New(ln, d.most)
	l.HelloTime, l.MaxAge = d.cfg.ClientTimeout, d.cfg.MaxConnectionAge
	if d.cfg.TLS.Cert != "" {
		l.TLS = d.certs.Server(protocols...)
	}
	return l
}

// announce logs the addresses, the rules and the store.
func (d *Daemon) announce(public, admin net.Addr) {
	scheme, adminScheme := "http", "http"
	if d.cfg.TLS.Cert != "" {
		scheme = "https"
	}
	if d.cfg.Operators.AdminTLS {
		adminScheme = "https"
	}
	rules := d.server.Rules()
	facts := []any{"listen", httpserve.URL(scheme, public), "admin", httpserve.URL(adminScheme, admin),
		"from", d.cfg.source(), "rules", len(rules.Rules), "hash", rules.Hash}
	if d.cfg.Store != nil {
		facts = append(facts, "store", d.cfg.Store.Client.Address)
	}
	if d.cfg.Upstream != nil {
		facts = append(facts, "upstream", d.cfg.Upstream.Exchanges.URL)
	}
	if d.cfg.Peers != nil {
		facts = append(facts, "peers", d.cfg.Peers.Members.String())
	}
	d.log.Info("weir serve", facts...)
	if d.cfg.Transport == "inline" && d.blocking() {
		d.log.Warn("--transport=inline has no effect: this instance asks a store, peers or an upstream about each request, and all are answered as with std")
	}
	d.warn(public)
	if d.cfg.Peers != nil && len(d.cfg.Peers.Secret) == 0 && d.cfg.TLS.ClientCA == "" && !httpserve.Loopback(public) {
		d.log.Warn("every client that reaches the listener may act as a peer: there is neither --peer-secret-file nor --client-ca", "listen", public.String())
	}
}

// warn warns of a listener of callers that others can use or read.
func (d *Daemon) warn(public net.Addr) {
	switch {
	case httpserve.Loopback(public):
	case d.cfg.Tokens == "" && d.cfg.TLS.ClientCA == "":
		d.log.Warn("every client that reaches the listener may use it: there are neither --tokens nor --client-ca", "listen", public.String())
	case d.cfg.Tokens != "" && d.cfg.TLS.Cert == "":
		d.log.Warn("clients send their tokens in cleartext, and the network can read them: give --tls-cert and --tls-key, or let a proxy beside the server end TLS", "listen", public.String())
	}
}

// otherFiles is the number of open files that the process needs besides connections
// of callers: those of operators, their profiles, rules, the state.
const otherFiles = operator.MaxConns + 56

// serveAdmin serves operators until stop is called.
func (d *Daemon) serveAdmin(ln net.Listener) (stop func(), err error) {
	metrics, err := d.metrics()
	if err != nil {
		ln.Close()
		return nil, err
	}
	cfg := adminapi.Config{
		Server: d.server, Explain: d.decider.Explain, Metrics: metrics, Pprof: d.cfg.Operators.Pprof, Local: httpserve.Loopback(ln.Addr()), Hosts: d.cfg.Operators.AdminHost,
		Log: d.log, Recording: d.cfg.Box,
		Ready: func() error {
			switch {
			case d.draining.Load():
				return errors.New("draining")
			case !d.serving.Load():
				return errors.New("not serving yet")
			}
			return cmp.Or(d.joined(), d.fleet.ready())
		},
		ConfigStatus: func() adminapi.ConfigStatus {
			status, _ := d.reloads.state()
			return status
		},
	}
	if to, ok := d.decider.(decider.Resetter); ok {
		cfg.Reset = to.Reset
	}
	if d.shared != nil {
		cfg.Store = d.shared.StoreStats
	}
	if d.tier != nil {
		cfg.Upstream, cfg.UpstreamURL = d.tier.TierStats, d.tier.url
	}
	if d.fleet != nil {
		cfg.Peers = d.fleet.ring.Stats
	}
	if len(d.cfg.paths()) > 0 {
		cfg.Reload = d.reload
	}
	if d.cfg.Operators.AdminTokens != "" {
		cfg.Tokens = &d.operators
	}
	api := adminapi.New(cfg)
	srv := httpserve.New(httpserve.TimeWrites(api, d.cfg.ClientTimeout), d.log)
	srv.ReadTimeout = d.cfg.ClientTimeout
	if d.cfg.Operators.AdminTLS {
		srv.TLSConfig = d.certs.Plain()
	}
	end := operator.Serve(srv, ln, d.log)
	return func() { end(); api.Close() }, nil
}

// MaxHeader returns the bound of a request's header in bytes, for keys of up to maxKey bytes, which may be escaped.
func MaxHeader(maxKey int) int { return max(16<<10, 3*maxKey+8<<10) }

// serve serves callers until ctx ends, and then drains and saves the state.
func (d *Daemon) serve(ctx context.Context) error {
	d.public = d.newPublic()
	failed := make(chan error, 3)
	go func() { failed <- d.public.Serve(d.conns) }()
	if d.resp.api != nil {
		d.resp.conns.Failed = d.conns.Failed
		go func() { failed <- d.resp.api.Serve(d.resp.conns) }()
	}
	if d.grpc.server != nil {
		go func() { failed <- d.grpc.server.Serve(d.grpc.conns) }()
	}
	if d.fleet != nil {
		d.fleet.start(ctx, d)
	}
	go d.tier.watchTiers(ctx, d)
	d.serving.Store(true)
	supervisor.Ready(d.log)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	return errors.Join(d.drain(), d.state.Save(true))
}

// source names the origin of the rules.
func (c *Config) source() string { return cmp.Or(c.RulesPath, "flags") }

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/internal/httpheader"
	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/certfile"
	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/clients"
	"github.com/weir-go/weir/service/internal/proxyheader"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/rulefile"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/settings"
	"github.com/weir-go/weir/service/internal/supervisor"
)

// proxyWire configures the connections of a proxy with clients and origins.
type proxyWire struct {
	TLSCert     string `name:"tls-cert" placeholder:"FILE" group:"tls" help:"Serve TLS to clients with this certificate and its chain. Clients may speak HTTP/2, with TLS or without. All files for TLS, and --admin-tokens, are loaded again when they change, and upon SIGHUP."`
	TLSKey      string `name:"tls-key" placeholder:"FILE" group:"tls" help:"The private key of --tls-cert."`
	TLSClientCA string `name:"tls-client-ca" placeholder:"FILE" group:"tls" help:"Accept only clients with a certificate that this authority has signed."`

	AdminHost   []string `placeholder:"NAME" group:"operators" help:"Names by which browsers and scrapers may call the listener of operators, besides its addresses, names without a dot, and those of private domains. On loopback: besides localhost."`
	AdminTokens string   `placeholder:"FILE" group:"operators" help:"A YAML file with the tokens of operators: each request needs one that allows admin, or metrics for /metrics alone; /-/health and /-/ready need none."`
	AdminTLS    bool     `name:"admin-tls" group:"operators" help:"Serve TLS to operators too, with the certificate of --tls-cert."`

	OriginCA         string `name:"origin-ca" placeholder:"FILE" group:"origin" help:"Accept https origins with a certificate that this authority has signed, instead of those of the system."`
	OriginCert       string `name:"origin-cert" placeholder:"FILE" group:"origin" help:"Show this certificate to https origins that ask for one."`
	OriginKey        string `name:"origin-key" placeholder:"FILE" group:"origin" help:"The private key of --origin-cert."`
	OriginServerName string `placeholder:"NAME" group:"origin" help:"The name in the certificate of https origins, if it is not that of their URL."`

	Trust         []string `placeholder:"CIDR" group:"front" help:"Networks or addresses of the proxies in front of this one, or unix for those at a Unix socket. Of their requests, X-Forwarded-For, -Host, -Proto, -Port and Forwarded are kept, and the client's address counts for rules and shares. Of others, they are replaced."`
	TrustHeader   string   `default:"X-Forwarded-For" placeholder:"NAME" group:"front" help:"Header in which the proxies of --trust report their clients: X-Forwarded-For, Forwarded, or one with a single address, such as X-Real-IP. They must append to it or replace it (${default})."`
	ProxyProtocol bool     `group:"front" help:"The proxies of --trust send the header of the PROXY protocol, version 1 or 2, before each connection. Connections of others have none."`

	HeaderTimeout    time.Duration `least:"1ms" default:"10s" placeholder:"TIME" group:"bounds" help:"How long a client may take to send the header of the PROXY protocol, for the handshake of TLS, and for the header of a request (${default})."`
	IdleTimeout      time.Duration `least:"1ms" default:"2m" placeholder:"TIME" group:"bounds" help:"How long a connection of a client may stay without a request (${default})."`
	MaxConnectionAge time.Duration `least:"0s" default:"0s" placeholder:"TIME" group:"bounds" help:"How long a connection of a client lives, give or take a tenth: then the client is asked to open another one, by Connection: close or GOAWAY, and requests in progress finish; 0s: for ever (${default})."`
	MaxHeader        settings.Size `least:"1024" default:"64KiB" placeholder:"SIZE" group:"bounds" help:"Maximum size of a request's header (${default})."`
	MaxBody          settings.Size `least:"0" default:"0" placeholder:"SIZE" group:"bounds" help:"Maximum size of a request's body; a larger one gets 413; 0: no bound (${default})."`
}

// A wire has the files and the trusted networks of a proxyWire.
type wire struct {
	*proxyWire
	clients *certfile.Set // nil without TLS
	origins *certfile.Set
	trusted caller.Trusted
	guard   token.Guard
	watcher *rulefile.Watcher // nil if there are no files
	log     *slog.Logger
	mu      sync.Mutex                         // held by reload: the last one puts its files into force last
	failed  atomic.Bool                        // the last reload
	conns   atomic.Pointer[connlimit.Listener] // nil before there is one
}

// open checks the flags and loads the files.
func (c *proxyWire) open(log *slog.Logger) (*wire, error) {
	w := &wire{proxyWire: c, log: log}
	trusted, err := parseTrust(c.Trust)
	switch {
	case err != nil:
		return nil, err
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return nil, cli.Usagef("--tls-cert and --tls-key need each other")
	case c.TLSClientCA != "" && c.TLSCert == "":
		return nil, cli.Usagef("--tls-client-ca needs --tls-cert and --tls-key")
	case (c.OriginCert == "") != (c.OriginKey == ""):
		return nil, cli.Usagef("--origin-cert and --origin-key need each other")
	case c.ProxyProtocol && trusted.Empty():
		return nil, cli.Usagef("--proxy-protocol needs --trust: without it, any client could choose its address")
	case c.AdminTLS && c.TLSCert == "":
		return nil, cli.Usagef("--admin-tls needs --tls-cert and --tls-key")
	case !httpheader.ValidName(c.TrustHeader):
		return nil, cli.Usagef("--trust-header=%q: is no name of a header", c.TrustHeader)
	}
	w.trusted = trusted
	clients := certfile.Files{Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSClientCA}
	origins := certfile.Files{Cert: c.OriginCert, Key: c.OriginKey, CA: c.OriginCA}
	paths := slices.Concat(clients.Paths(), origins.Paths())
	if c.AdminTokens != "" {
		paths = append(paths, c.AdminTokens)
	}
	if len(paths) > 0 { // before they are read, so that no change is missed
		w.watcher = rulefile.NewWatcher(paths, 10*time.Second)
	}
	if w.origins, err = certfile.Open(origins); err != nil {
		return nil, fmt.Errorf("--origin-ca, --origin-cert, --origin-key: %w", err)
	}
	if err = w.loadTokens(); err != nil {
		return nil, err
	}
	if c.TLSCert == "" {
		return w, nil
	}
	if w.clients, err = certfile.Open(clients); err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key, --tls-client-ca: %w", err)
	}
	return w, nil
}

// loadTokens loads the tokens of operators, if there is a file.
func (w *wire) loadTokens() error {
	if w.AdminTokens == "" {
		return nil
	}
	tokens, err := token.Load(w.AdminTokens)
	if err != nil {
		return fmt.Errorf("--admin-tokens: %w", err)
	}
	w.guard.Use(tokens)
	return nil
}

// The metrics of connections and files.
var (
	connectionsMax     = metric.Gauge("weir_proxy_connections_max", "Bound of weir_proxy_connections.")
	connectionsShed    = metric.Counter("weir_proxy_connections_shed_total", "Idle connections that were closed to make room for new ones.")
	connectionsRefused = metric.Counter("weir_proxy_connections_refused_total", "Connections that were refused because their address, or all, had too many.")
	accessGood         = metric.Gauge("weir_proxy_access_last_reload_successful", "Whether the last load of certificates, authorities and tokens succeeded. Absent without such files.")
)

// metrics returns the metrics of connections, files and the process.
func (w *wire) metrics() []prometheus.Collector {
	families := []*metric.Family{connectionsMax, connectionsShed, connectionsRefused, accessGood}
	return []prometheus.Collector{
		metric.NewCollector(nil, families, w.collect),
		collectors.NewGoCollector(), collectors.NewBuildInfoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
}

func (w *wire) collect(s metric.Scrape) {
	if conns := w.conns.Load(); conns != nil {
		n := conns.Count()
		s.Send(connectionsMax, float64(conns.Max()))
		s.Send(connectionsShed, float64(n.Shed))
		s.Send(connectionsRefused, float64(n.Refused))
	}
	if w.watcher == nil {
		return
	}
	good := 1.0
	if w.failed.Load() {
		good = 0
	}
	s.Send(accessGood, good)
}

// serveAdmin serves operators until stop is called.
func (w *wire) serveAdmin(page http.Handler, ln net.Listener) (stop func()) {
	var tokens *token.Guard
	if w.AdminTokens != "" {
		tokens = &w.guard
	}
	srv := httpserve.New(httpserve.Private(operator.Guard(page, tokens, w.log), httpserve.Loopback(ln.Addr()), w.AdminHost), w.log)
	srv.ReadTimeout, srv.WriteTimeout = 10*time.Second, 30*time.Second
	if w.AdminTLS {
		srv.TLSConfig = w.clients.Plain()
	}
	return operator.Serve(srv, ln, w.log)
}

// parseTrust parses networks, addresses, and unix.
func parseTrust(texts []string) (caller.Trusted, error) {
	var list proxyrule.Networks
	for _, text := range texts {
		var n proxyrule.Network
		if err := n.UnmarshalText([]byte(text)); err != nil {
			return caller.Trusted{}, cli.Usagef("--trust=%s: must be a network such as 10.0.0.0/8, an address, or unix", text)
		}
		list = append(list, n)
	}
	return list.Trusted(), nil
}

// configure sets the fields of a proxy's configuration.
func (w *wire) configure(cfg *proxy.Config) {
	cfg.OriginTLS, cfg.MaxBody = w.origins.Client(w.OriginServerName), int64(w.MaxBody)
	cfg.Trust = clients.Trust{Proxies: w.trusted, Header: w.TrustHeader}
}

// scheme returns the scheme of the URL of a listener with or without TLS.
func scheme(secure bool) string {
	if secure {
		return "https"
	}
	return "http"
}

// limit returns a listener of clients that bounds their connections.
func (w *wire) limit(ln net.Listener, max int, srv *http.Server) *connlimit.Listener {
	failed := func(what string) func(net.Addr, error) {
		return func(from net.Addr, err error) { srv.ErrorLog.Printf("%s from %v: %v", what, from, err) }
	}
	if w.ProxyProtocol {
		ln = proxyheader.New(ln, proxyheader.Config{Trusted: w.trusted.Contains, Timeout: w.HeaderTimeout, Failed: failed("connection")})
	}
	conns := connlimit.New(ln, max)
	conns.MaxAge = w.MaxConnectionAge
	conns.HelloTime, conns.Failed = w.HeaderTimeout, failed("TLS handshake error")
	if w.clients != nil {
		conns.TLS = w.clients.Server("h2", "http/1.1")
	}
	if !w.trusted.Empty() {
		conns.Shared = w.trusted.Contains
	}
	w.conns.Store(conns)
	return conns
}

// serve sets up a server of the connections. Leave is asked whether the client of a request
// is to leave; so is one whose connection is too old, or came when clients of other authorities
// were accepted.
func (w *wire) server(next http.Handler, leave func() bool, timeout time.Duration) *http.Server {
	srv := httpserve.New(httpserve.Leave(next, func(r *http.Request) bool {
		return leave() || connlimit.Outlived(r.Context()) || w.clients != nil && w.clients.Outdated(r.Context())
	}), w.log)
	srv.ReadHeaderTimeout, srv.IdleTimeout, srv.MaxHeaderBytes = w.HeaderTimeout, w.IdleTimeout, int(w.MaxHeader)
	srv.DisableGeneralOptionsHandler = true // that one reads a body without a deadline
	httpserve.SpeakHTTP2(srv, timeout)
	return srv
}

// attach connects a server with its connections.
func (w *wire) attach(srv *http.Server, conns *connlimit.Listener, p *proxy.Proxy) {
	srv.ConnState = conns.ConnState
	srv.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if w.clients != nil {
			ctx = w.clients.Begin(ctx)
		}
		return p.ConnContext(conns.ConnContext(ctx, nc), nc)
	}
}

// reload loads the files again, for new handshakes.
func (w *wire) reload(p *proxy.Proxy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var wrong []string
	if w.clients != nil {
		if err := w.clients.Load(); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if err := w.origins.Load(); err != nil {
		wrong = append(wrong, err.Error())
	}
	if err := w.loadTokens(); err != nil {
		wrong = append(wrong, err.Error())
	}
	p.UseOriginTLS(w.origins.Client(w.OriginServerName))
	if w.failed.Store(len(wrong) > 0); len(wrong) > 0 {
		w.log.Error("reload of certificates and tokens failed: files with errors keep their last good content", "error", strings.Join(wrong, "; "))
		return
	}
	w.log.Info("certificates and tokens reloaded")
}

// watch reloads the files when they change until ctx ends, and upon SIGHUP until stop is called.
func (w *wire) watch(ctx context.Context, p *proxy.Proxy) (stop func()) {
	if w.watcher == nil {
		return func() {}
	}
	reload := func() { w.reload(p) }
	go w.watcher.Run(ctx, reload)
	return supervisor.OnHangup(reload)
}

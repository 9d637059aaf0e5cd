package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/server/httpapi"
	"github.com/weir-go/weir/service/internal/server/token"
)

type serveCmd struct {
	Listen string `placeholder:"ADDR" help:"Where callers come in, with HTTP/1.1 and HTTP/2 (127.0.0.1:8080)."`
	Port   int    `short:"p" env:"PORT" placeholder:"N" help:"Instead of --listen: that port of all addresses. (Not $$WEIR_PORT: to Kubernetes, that is where a Service called weir is.)"`
	Admin  string `default:"127.0.0.1:8081" placeholder:"ADDR" help:"Where the page, /-/ready, /-/reload, /metrics and more are (${default}). Keep it private."`

	Rules         string        `placeholder:"PATH" help:"The rules: a YAML file, or a directory of such. Changes are loaded as they happen."`
	Tokens        string        `placeholder:"FILE" help:"Who may ask for what: a YAML file of tokens. Without it, everybody may everything."`
	State         string        `placeholder:"FILE" help:"Where counts and leases are kept from one run to the next."`
	StateInterval time.Duration `default:"1m" placeholder:"TIME" help:"How often they are kept while it runs, in case it ends without a chance to (${default})."`
	WatchInterval time.Duration `default:"10s" placeholder:"TIME" help:"How often files are looked at, besides when the system tells of a change (${default})."`

	serveTLS   `embed:""`
	serveOne   `embed:""`
	serveOwn   `embed:""`
	serveBound `embed:""`
	serveLog   `embed:""`

	Grace             time.Duration `default:"30s" placeholder:"TIME" help:"How long those who wait have after SIGTERM or Ctrl-C (${default})."`
	Drain             string        `default:"finish" enum:"finish,refuse" placeholder:"HOW" help:"What becomes of them then: finish, they get their turn; refuse, they are sent away at once (${default})."`
	NoRatelimitFields bool          `help:"Leave out the fields RateLimit and RateLimit-Policy."`

	ServerType   string   `short:"s" hidden:"" env:"WEIR_SERVER_TYPE,SERVER_TYPE" help:"GoCC's: it does nothing here, HTTP/1.1 and HTTP/2 are always served."`
	InstanceURLs []string `short:"i" hidden:"" name:"instance-urls" env:"WEIR_INSTANCE_URLS,INSTANCE_URLS" help:"GoCC's: not supported."`
}

// A daemon is weir serve as it runs.
type daemon struct {
	cmd    *serveCmd
	log    *slog.Logger
	server *server.Server
	api    *httpapi.API
	guard  token.Guard
	files  *reloader
	conns  *connlimit.Listener // of callers
	public *http.Server
	phase  phase
	saving sync.Mutex // held while the state is written
}

// Run serves until ctx ends, and then drains.
func (c *serveCmd) Run(ctx context.Context, std streams) error {
	log, err := c.logger(std.Err)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return err
	}
	d := &daemon{cmd: c, log: log}
	watcher := config.NewWatcher(config.WatchConfig{Paths: c.paths(), Interval: c.WatchInterval, Log: log})
	if err := d.load(); err != nil {
		return err
	}
	ln, err := listen("--listen", c.address())
	if err != nil {
		return err
	}
	d.conns = connlimit.New(ln, d.connections())
	defer d.conns.Close()
	admin, err := listen("--admin", c.Admin)
	if err != nil {
		return err
	}
	stopAdmin, err := d.serveAdmin(admin)
	if err != nil {
		return err
	}
	defer stopAdmin()
	if len(c.paths()) > 0 {
		go watcher.Run(ctx, d.reloadQuietly)
	}
	go d.saveEvery(ctx, c.StateInterval)
	defer d.onHangup()() // also without files: else SIGHUP ends the process
	d.announce(ln.Addr(), admin.Addr())
	return d.serve(ctx)
}

// load makes the server, of what the files say.
func (d *daemon) load() error {
	c := d.cmd
	first, err := c.load()
	if err != nil {
		return err
	}
	d.server, err = server.New(c.server(first.rules))
	if err != nil {
		return err
	}
	if err := d.restore(); err != nil {
		return err
	}
	d.files = newReloader(d, first)
	d.api, err = httpapi.New(d.server, c.api(&d.guard))
	return err
}

// announce says where it serves, and what.
func (d *daemon) announce(public, admin net.Addr) {
	scheme := "http://"
	if d.cmd.TLSCert != "" {
		scheme = "https://"
	}
	rules := d.server.Rules()
	d.log.Info("weir serve", "listen", scheme+public.String(), "admin", "http://"+admin.String(),
		"from", d.cmd.source(), "rules", len(rules.Rules), "hash", rules.Hash)
	if d.cmd.Tokens == "" && d.cmd.ClientCA == "" && !loopback(public) {
		d.log.Warn("whoever reaches the listener may use it, for there are neither --tokens nor --client-ca", "listen", public.String())
	}
}

// otherFiles is how many files there may be beside connections of callers: those of
// operators, their profiles, rules, the state.
const otherFiles = maxOperators + 56

// connections returns how many there may be of callers: no more than the process
// may have files for, or who has them all keeps out operators, and the state.
func (d *daemon) connections() int {
	room := roomFor(maxFiles())
	if room < d.cmd.MaxConnections {
		d.log.Warn("there may be fewer connections than --max-connections, for there may be few files (ulimit -n)", "connections", room)
	}
	return min(room, d.cmd.MaxConnections)
}

// roomFor returns how many of so many files connections of callers may be.
func roomFor(files int) int { return max(files-otherFiles, files/2) }

func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// serveAdmin serves the operator until it is stopped.
func (d *daemon) serveAdmin(ln net.Listener) (stop func(), err error) {
	metrics, err := d.metrics()
	if err != nil {
		ln.Close()
		return nil, err
	}
	cfg := adminapi.Config{
		Server: d.server, Ready: d.phase.ready, ConfigStatus: d.files.state, Metrics: metrics, Pprof: true, Local: loopback(ln.Addr()),
	}
	if len(d.cmd.paths()) > 0 {
		cfg.Reload = d.files.reload
	}
	api := adminapi.New(cfg)
	conns := connlimit.New(ln, maxOperators)
	srv := newServer(timedWrites(api, d.cmd.ClientTimeout), d.log)
	srv.ReadTimeout, srv.ConnState = d.cmd.ClientTimeout, conns.ConnState
	go func() {
		// It ends with Close; nothing else is expected of a listener on hand.
		d.log.Debug("the admin listener is closed", "reason", srv.Serve(conns))
	}()
	return func() { _ = srv.Close(); api.Close() }, nil
}

const (
	// pingAfter is when a connection with HTTP/2 that is silent is asked whether it is
	// still there.
	pingAfter = time.Minute
	// maxOperators bounds the connections to the admin listener.
	maxOperators = 100
	// maxStreams bounds the requests at once of a connection with HTTP/2.
	maxStreams = 1000
)

// newPublic returns the http.Server of callers. It has no ReadTimeout, which would
// end requests that wait: httpapi gives bodies a deadline. It also suspends the
// deadline of WriteTimeout while a request waits.
func (d *daemon) newPublic() *http.Server {
	srv := newServer(d.cmd.logged(d.log, d.guard.Handler(d.api)), d.log)
	srv.ReadHeaderTimeout, srv.WriteTimeout, srv.ConnState = d.cmd.ClientTimeout, d.cmd.ClientTimeout, d.conns.ConnState
	srv.DisableGeneralOptionsHandler = true // it would wait for a body for as long as that takes
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: d.cmd.ClientTimeout, WriteByteTimeout: d.cmd.ClientTimeout,
	}
	if d.cmd.TLSCert == "" {
		srv.Protocols.SetUnencryptedHTTP2(true)
		return srv
	}
	srv.Protocols.SetHTTP2(true)
	srv.TLSConfig = d.files.tls()
	return srv
}

// serve serves callers until ctx ends, then lets those go who wait, and ends.
func (d *daemon) serve(ctx context.Context) error {
	d.public = d.newPublic()
	failed := make(chan error, 1)
	go func() {
		if d.cmd.TLSCert == "" {
			failed <- d.public.Serve(d.conns)
		} else {
			failed <- d.public.ServeTLS(d.conns, "", "")
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	return errors.Join(d.drain(), d.save())
}

// server returns what the server is made of.
func (c *serveCmd) server(rules *config.Rules) server.Config {
	cfg := server.Config{
		Rules: rules, Memory: int(c.Memory), MaxWaiting: orNone(c.MaxWaiting), MaxLeases: c.MaxLeases,
	}
	cfg.MaxLimit, cfg.MaxQueue = c.overrides()
	return cfg
}

// api returns what the API is made of.
func (c *serveCmd) api(guard *token.Guard) httpapi.Config {
	cfg := httpapi.Config{NoFields: c.NoRatelimitFields, MaxKey: c.MaxKey, MaxBody: int(c.MaxBody), BodyTimeout: c.ClientTimeout, AnswerTimeout: c.ClientTimeout}
	cfg.MaxLimit, cfg.MaxQueue = c.overrides()
	if c.Tokens == "" {
		return cfg
	}
	cfg.Authorize = func(r *http.Request, a httpapi.Action, key string) error {
		err := guard.Authorize(r, tokenActions[a], key)
		if err == token.ErrUnknown {
			return fmt.Errorf("%w: %w", httpapi.ErrUnauthorized, err)
		}
		return err
	}
	return cfg
}

// tokenActions is what files of tokens call the actions of the API.
var tokenActions = map[httpapi.Action]token.Action{
	httpapi.Rate: token.Decide, httpapi.Lease: token.Lease, httpapi.Debug: token.Debug,
}

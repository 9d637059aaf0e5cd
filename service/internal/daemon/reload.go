package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/service/internal/certfile"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/inputfile"
	"github.com/weir-go/weir/service/internal/logqueue"
	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/server/token"
)

// TLS names the files for TLS.
type TLS struct {
	Cert     string `name:"tls-cert" placeholder:"FILE" help:"Serve TLS with this certificate and its chain."`
	Key      string `name:"tls-key" placeholder:"FILE" help:"The private key of --tls-cert."`
	ClientCA string `name:"client-ca" placeholder:"FILE" help:"Accept only clients with a certificate that this authority has signed."`
}

// certificate loads the certificate of the server; nil if it has none.
func (t *TLS) certificate() (*tls.Certificate, error) {
	if t.Cert == "" {
		return nil, nil
	}
	cert, err := certfile.Pair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	return cert, nil
}

// clients loads the authorities of the clients; nil if there are none.
func (t *TLS) clients() (*x509.CertPool, error) {
	pool, err := inputfile.Authorities(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("--client-ca: %w", err)
	}
	return pool, nil
}

// access holds what admits callers and operators: their tokens, the authorities of callers, and the certificate of
// the server. Each field comes into force without the others. It is nil if its file is not given, or has an error.
type access struct {
	tokens    *token.Set // of callers
	operators *token.Set
	cert      *tls.Certificate
	clients   *x509.CertPool
}

// or returns the access with the missing fields taken from another one.
func (a access) or(b access) access {
	return access{cmp.Or(a.tokens, b.tokens), cmp.Or(a.operators, b.operators), cmp.Or(a.cert, b.cert), cmp.Or(a.clients, b.clients)}
}

// tls returns the configuration for a handshake, with the names of the protocols after it;
// nil without a certificate.
func (a access) tls(protocols ...string) *tls.Config {
	if a.cert == nil {
		return nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*a.cert}, NextProtos: protocols}
	if a.clients != nil {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, a.clients
	}
	return cfg
}

// paths returns the files to load, and to load again when they change.
func (c *Config) paths() (paths []string) {
	for _, path := range []string{c.RulesPath, c.Tokens, c.Operators.AdminTokens, c.TLS.Cert, c.TLS.Key, c.TLS.ClientCA} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// load reads all files. The error has the mistakes of all of them; what has none is
// returned.
func (c *Config) load() (rules *config.Rules, a access, err error) {
	var wrong [5]error
	rules, wrong[0] = c.LoadRules()
	if c.Tokens != "" {
		a.tokens, wrong[1] = token.Load(c.Tokens)
	}
	if c.Operators.AdminTokens != "" {
		a.operators, wrong[4] = token.Load(c.Operators.AdminTokens)
	}
	a.cert, wrong[2] = c.TLS.certificate()
	a.clients, wrong[3] = c.TLS.clients()
	return rules, a, errors.Join(wrong[:]...)
}

// reloads is the outcome of the loads so far.
type reloads struct {
	running sync.Mutex // held while files are loaded; guards Daemon.access
	log     *logqueue.Latest

	mu       sync.Mutex // guards the fields below
	status   adminapi.ConfigStatus
	failures uint64
}

// reload loads the files and puts them into force. It returns a summary of the changes
// of the rules. A file with a mistake keeps its last good content, and only this one: a
// mistake in the rules must not keep a token valid that was removed.
func (d *Daemon) reload(context.Context) (change string, err error) {
	d.reloads.running.Lock()
	defer d.reloads.running.Unlock()
	rules, a, err := d.cfg.load()
	d.permit(a)
	if rules != nil {
		old := d.server.Rules()
		var wrong error
		if rules.Hash == "" || rules.Hash != old.Hash {
			if wrong = d.reloadRules(rules); wrong == nil {
				d.fleet.reload(rules)
				d.state.SaveSoon() // the next run has to know the leases that were granted under the old rules
			}
		}
		if err = errors.Join(err, wrong); wrong == nil {
			change = config.Diff(old, rules)
		}
	}
	d.reloads.note(err)
	if err != nil {
		d.reloads.log.Log(slog.LevelError, "reload failed: files with errors keep their last good content", "error", err, "change", change)
		return "", err
	}
	d.reloads.log.Log(slog.LevelInfo, "reloaded", "change", change, "hash", rules.Hash)
	return change, nil
}

// permit puts the access into force; where it has none, the present one stays.
func (d *Daemon) permit(a access) {
	old := d.access
	if d.access = a.or(old); old.clients != nil && !old.clients.Equal(d.access.clients) {
		d.trusts.Add(1)
		d.grpc.cut()
		d.leaves.Recheck(true)
	}
	d.guard.Use(d.access.tokens)
	d.operators.Use(d.access.operators)
	d.leaves.Recheck(false)
	d.tls.Store(d.access.tls("h2", "http/1.1"))
	d.respTLS.Store(d.access.tls())
}

// trustKey is the context key for Daemon.trusts when the connection of a request came.
type trustKey struct{}

func (d *Daemon) connContext(ctx context.Context, nc net.Conn) context.Context {
	if d.cfg.TLS.ClientCA != "" {
		ctx = context.WithValue(ctx, trustKey{}, d.trusts.Load())
	}
	return d.conns.ConnContext(ctx, nc)
}

// asksToLeave reports whether the connection of a request is to end after its answer: the
// server drains, the connection is too old, or it came when clients of other authorities were
// accepted.
func (d *Daemon) asksToLeave(r *http.Request) bool {
	return d.draining.Load() || d.cfg.MaxConnectionAge > 0 && connlimit.Outlived(r.Context()) ||
		d.cfg.TLS.ClientCA != "" && r.Context().Value(trustKey{}) != d.trusts.Load()
}

// note records the outcome of a reload.
func (r *reloads) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.Error = err; err == nil {
		r.status.Success = time.Now()
		return
	}
	r.failures++
	r.status.Failure = time.Now()
}

// state returns the outcome of the loads, and the number of reloads that failed.
func (r *reloads) state() (status adminapi.ConfigStatus, failures uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status, r.failures
}

// reloadAndLog reloads; the outcome is in the log.
func (d *Daemon) reloadAndLog() { _, _ = d.reload(context.Background()) }

// onHangup reloads upon SIGHUP, until stop is called.
func (d *Daemon) onHangup() (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			d.reloadAndLog()
		}
	}()
	return func() { signal.Stop(hangups); close(hangups) }
}

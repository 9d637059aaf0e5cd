package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/server/token"
)

// serveTLS is who the server is, and who may connect to it.
type serveTLS struct {
	TLSCert  string `name:"tls-cert" placeholder:"FILE" help:"The certificate for TLS, with its chain."`
	TLSKey   string `name:"tls-key" placeholder:"FILE" help:"Its key."`
	ClientCA string `name:"client-ca" placeholder:"FILE" help:"Only clients with a certificate of this authority may connect."`
}

// config returns what the files say; nil if there are none.
func (t *serveTLS) config() (*tls.Config, error) {
	if t.TLSCert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(t.TLSCert, t.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	if t.ClientCA == "" {
		return cfg, nil
	}
	text, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("--client-ca: %w", err)
	}
	cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--client-ca: %s: there is no certificate in it", t.ClientCA)
	}
	return cfg, nil
}

// loaded is what the files say. It comes into force together.
type loaded struct {
	rules  *config.Rules
	tokens *token.Set  // nil: none
	tls    *tls.Config // nil: none
}

// paths are the files that are loaded, and again when they change.
func (c *serveCmd) paths() (paths []string) {
	for _, path := range []string{c.Rules, c.ConfigFile, c.Tokens, c.TLSCert, c.TLSKey, c.ClientCA} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// load reads all files, and tells all that is wrong with them.
func (c *serveCmd) load() (l loaded, err error) {
	var wrong [3]error
	l.rules, wrong[0] = c.rules()
	if c.Tokens != "" {
		l.tokens, wrong[1] = token.Load(c.Tokens)
	}
	l.tls, wrong[2] = c.serveTLS.config()
	return l, errors.Join(wrong[:]...)
}

// A reloader puts into force what the files say.
type reloader struct {
	*daemon
	inForce atomic.Pointer[tls.Config]

	reloading sync.Mutex // held while files are loaded

	mu       sync.Mutex // guards what follows
	status   adminapi.ConfigStatus
	failures uint64
}

func newReloader(d *daemon, first loaded) *reloader {
	r := &reloader{daemon: d, status: adminapi.ConfigStatus{Path: d.cmd.source(), Success: time.Now()}}
	d.guard.Use(first.tokens)
	r.inForce.Store(first.tls)
	return r
}

// reload puts into force what the files say now, all of them together, and says
// what has changed; or, if anything is wrong with one, what it is, and changes
// nothing.
func (r *reloader) reload(context.Context) (string, error) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	l, err := r.cmd.load()
	old := r.server.Rules()
	if err == nil && (l.rules.Hash == "" || l.rules.Hash != old.Hash) {
		err = r.server.Reload(l.rules)
	}
	r.note(err)
	if err != nil {
		r.log.Error("not reloaded: all stays as it was", "error", err)
		return "", err
	}
	r.guard.Use(l.tokens)
	r.inForce.Store(l.tls)
	change := config.Diff(old, l.rules).String()
	r.log.Info("reloaded", "change", change, "hash", l.rules.Hash)
	return change, nil
}

// note keeps how a reload went.
func (r *reloader) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.Error = err; err == nil {
		r.status.Success = time.Now()
		return
	}
	r.failures++
	r.status.Failure = time.Now()
}

// state says how the loading went.
func (r *reloader) state() adminapi.ConfigStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// failed returns how many reloads have failed.
func (r *reloader) failed() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

// tls returns the settings for a listener: those in force, for each connection
// that comes.
func (r *reloader) tls() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return r.inForce.Load(), nil
		},
	}
}

// reloadQuietly is reload, for those who have nobody to tell.
func (d *daemon) reloadQuietly() { _, _ = d.files.reload(context.Background()) }

// onHangup reloads upon SIGHUP, until it is stopped.
func (d *daemon) onHangup() (stop func()) {
	hangups, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-hangups:
				d.reloadQuietly()
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(hangups); close(done) }
}

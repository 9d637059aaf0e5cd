package daemon

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

// TLS names the files for TLS.
type TLS struct {
	Cert, Key string // of the server
	ClientCA  string // if set, clients need a certificate of this authority
}

// config loads the files. It returns nil if there are none.
func (t *TLS) config() (*tls.Config, error) {
	if t.Cert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
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

// loaded is the content of the files. It comes into force together.
type loaded struct {
	rules  *config.Rules
	tokens *token.Set  // nil: none
	tls    *tls.Config // nil: none
}

// paths returns the files to load, and to load again when they change.
func (c *Config) paths() (paths []string) {
	for _, path := range []string{c.RulesPath, c.Tokens, c.TLS.Cert, c.TLS.Key, c.TLS.ClientCA} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// load reads all files. The error has the mistakes of all of them.
func (c *Config) load() (l loaded, err error) {
	var wrong [3]error
	l.rules, wrong[0] = c.Rules()
	if c.Tokens != "" {
		l.tokens, wrong[1] = token.Load(c.Tokens)
	}
	l.tls, wrong[2] = c.TLS.config()
	return l, errors.Join(wrong[:]...)
}

// A reloader puts the content of the files into force.
type reloader struct {
	*Daemon
	inForce atomic.Pointer[tls.Config]

	reloading sync.Mutex // held while files are loaded

	mu       sync.Mutex // guards what follows
	status   adminapi.ConfigStatus
	failures uint64
}

func newReloader(d *Daemon, first loaded) *reloader {
	r := &reloader{Daemon: d, status: adminapi.ConfigStatus{Path: d.cfg.source(), Success: time.Now()}}
	d.guard.Use(first.tokens)
	r.inForce.Store(first.tls)
	return r
}

// reload loads the files and puts them into force together. It returns a summary of
// the changes. If any file has a mistake, it changes nothing and returns an error.
func (r *reloader) reload(context.Context) (string, error) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	l, err := r.cfg.load()
	old := r.server.Rules()
	if err == nil && (l.rules.Hash == "" || l.rules.Hash != old.Hash) {
		err = r.server.Reload(l.rules)
	}
	r.note(err)
	if err != nil {
		r.log.Error("reload failed: nothing was changed", "error", err)
		return "", err
	}
	r.guard.Use(l.tokens)
	r.inForce.Store(l.tls)
	change := config.Diff(old, l.rules).String()
	r.log.Info("reloaded", "change", change, "hash", l.rules.Hash)
	return change, nil
}

// note records the outcome of a reload.
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

// state returns the outcome of the reloads.
func (r *reloader) state() adminapi.ConfigStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// failed returns the number of reloads that failed.
func (r *reloader) failed() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

// tls returns the settings for a listener. Each new connection uses those in force.
func (r *reloader) tls() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return r.inForce.Load(), nil
		},
	}
}

// reloadAndLog reloads; the outcome is in the log.
func (d *Daemon) reloadAndLog() { _, _ = d.files.reload(context.Background()) }

// onHangup reloads upon SIGHUP, until stop is called.
func (d *Daemon) onHangup() (stop func()) {
	hangups, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-hangups:
				d.reloadAndLog()
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(hangups); close(done) }
}

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
	"syscall"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/server/token"
)

// TLS names the files for TLS.
type TLS struct {
	Cert     string `name:"tls-cert" placeholder:"FILE" help:"Serve TLS with this certificate and its chain."`
	Key      string `name:"tls-key" placeholder:"FILE" help:"The private key of --tls-cert."`
	ClientCA string `name:"client-ca" placeholder:"FILE" help:"Accept only clients with a certificate that this authority has signed."`
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
	l.rules, wrong[0] = c.LoadRules()
	if c.Tokens != "" {
		l.tokens, wrong[1] = token.Load(c.Tokens)
	}
	l.tls, wrong[2] = c.TLS.config()
	return l, errors.Join(wrong[:]...)
}

// reloads is the outcome of the loads so far.
type reloads struct {
	running sync.Mutex // held while files are loaded

	mu       sync.Mutex // guards the fields below
	status   adminapi.ConfigStatus
	failures uint64
}

// reload loads the files and puts them into force together. It returns a summary of
// the changes. If any file has a mistake, it changes nothing and returns an error.
func (d *Daemon) reload(context.Context) (string, error) {
	d.reloads.running.Lock()
	defer d.reloads.running.Unlock()
	l, err := d.cfg.load()
	old := d.server.Rules()
	if err == nil && (l.rules.Hash == "" || l.rules.Hash != old.Hash) {
		err = d.server.Reload(l.rules)
	}
	d.reloads.note(err)
	if err != nil {
		d.log.Error("reload failed: nothing was changed", "error", err)
		return "", err
	}
	d.guard.Use(l.tokens)
	d.tls.Store(l.tls)
	change := config.Diff(old, l.rules)
	d.log.Info("reloaded", "change", change, "hash", l.rules.Hash)
	return change, nil
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

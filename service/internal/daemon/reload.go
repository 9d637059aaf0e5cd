package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/certfile"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/connlimit"
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

func (t *TLS) files() certfile.Files {
	return certfile.Files{Cert: t.Cert, Key: t.Key, CA: t.ClientCA}
}

// named adds the flags to an error about the files.
func (t *TLS) named(err error) error {
	if err != nil {
		err = fmt.Errorf("--tls-cert, --tls-key, --client-ca: %w", err)
	}
	return err
}

// access holds the tokens of callers and operators. Each field comes into force without the other. It is nil if its file is not given,
// or has an error.
type access struct{ tokens, operators *token.Set }

// paths returns the files to load, and to load again when they change.
func (c *Config) paths() []string {
	paths := append(c.TLS.files().Paths(), c.RulesPath, c.Tokens, c.Operators.AdminTokens)
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}

// load reads the files of rules and tokens. The error has the mistakes of all of them; what has none is
// returned.
func (c *Config) load() (rules *config.Rules, a access, err error) {
	var wrong [3]error
	rules, wrong[0] = c.LoadRules()
	if c.Tokens != "" {
		a.tokens, wrong[1] = token.Load(c.Tokens)
	}
	if c.Operators.AdminTokens != "" {
		a.operators, wrong[2] = token.Load(c.Operators.AdminTokens)
	}
	return rules, a, errors.Join(wrong[:]...)
}

// reloads is the outcome of the loads so far.
type reloads struct {
	running sync.Mutex // held while files are loaded
	log     *logqueue.Latest

	mu       sync.Mutex // guards the fields below
	status   adminapi.ConfigStatus
	failures uint64
}

// reload loads the files and puts them into force. It returns a summary of the changes
// of the rules. A file with a mistake keeps its last good content, and only this one: a
// mistake in the rules must not keep a token valid that was removed.
func (d *Daemon) reload() (change string, err error) {
	d.reloads.running.Lock()
	defer d.reloads.running.Unlock()
	trusts := d.certs.Changes()
	certErr := d.certs.Load()
	rules, a, err := d.cfg.load()
	err = errors.Join(err, d.cfg.TLS.named(certErr))
	if d.certs.Changes() != trusts {
		d.grpc.cut()
		d.leaves.Recheck(true)
	}
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
	if a.tokens != nil {
		d.guard.Use(a.tokens)
	}
	if a.operators != nil {
		d.operators.Use(a.operators)
	}
	d.leaves.Recheck(false)
}

// asksToLeave reports whether the connection of a request is to end after its answer: the
// server drains, the connection is too old, or it came when clients of other authorities were
// accepted.
func (d *Daemon) asksToLeave(r *http.Request) bool {
	return d.draining.Load() || d.cfg.MaxConnectionAge > 0 && connlimit.Outlived(r.Context()) ||
		d.certs.Outdated(r.Context())
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
func (d *Daemon) reloadAndLog() { _, _ = d.reload() }

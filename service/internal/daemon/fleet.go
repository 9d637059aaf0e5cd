package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/discover"
	"github.com/weir-go/weir/service/internal/inputfile"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/ring"
	"github.com/weir-go/weir/service/internal/ring/census"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Peers configures a Daemon as a member of a fleet that shares keys.
type Peers struct {
	Members *discover.List
	Self    string        // the name of this member; if empty, it is found
	Secret  []byte        // that members share; none if empty
	Away    config.Away   // how to decide while the owner of a key cannot be asked, for rules that do not say
	Timeout time.Duration // for a decision at another member
	CA      string        // a file with the authorities of the members' certificates; if empty, those of the system
}

// A fleet makes a Daemon a member of a fleet. If nil, it is none.
type fleet struct {
	ring     *ring.Ring
	fallback *server.Fallback
	handler  *serve.Handler
	began    time.Time
}

// openFleet is the secret of a fleet without a configured secret.
const openFleet = "members without a secret"

// newFleet makes the server of the rules, and its ring.
func (d *Daemon) newFleet() (err error) {
	p := d.cfg.Peers
	f := &fleet{began: time.Now()}
	alone := d.cfg.Server
	d.cfg.Server.Fleet = cmp.Or(string(p.Secret), openFleet)
	if d.server, err = server.New(d.cfg.Server); err != nil {
		return err
	}
	if f.fallback, err = server.NewFallback(alone, p.Away); err != nil {
		return err
	}
	roots, err := inputfile.Authorities(p.CA)
	if err != nil {
		return fmt.Errorf("--peer-ca: %w", err)
	}
	self, log := wire.Info{Node: d.node, Version: d.cfg.Version}, newMemberLog(d.log, d.cfg.Version)
	f.ring = ring.New(ring.Config{
		Local: d.server, Fallback: f.fallback, Node: self.Node, Self: p.Self, Timeout: p.Timeout, OnChange: log.note,
		Strangers: len(p.Secret) > 0 || d.cfg.TLS.ClientCA != "",
		Dial: func(m census.Member, onState func(peer.State)) (ring.Link, error) {
			return peer.New(peer.Config{
				URL: m.URL, Self: self, Secret: p.Secret, TLS: d.peerTLS(m, roots), Rules: d.server.Rules, Now: d.server.Now,
				OnState: log.link(m, onState),
			})
		},
		OnDegraded: func(key string, v *decider.Verdict) {
			d.log.Warn("decided without the owner of the key (a sample, at most one a second)", slog.String("key", key), "step", v.Step, "allowed", v.OK)
		},
	})
	f.handler, err = serve.New(serve.Config{
		Decider: f.ring.Receiver(), Self: self, Secret: p.Secret, Rules: d.server.Rules, Now: d.server.Now, Calls: f.ring.Calls(),
		MaxWaiting: d.cfg.Server.MaxWaiting,
		OnRefused:  d.logRefused("a peer was refused"),
	})
	if err != nil {
		f.ring.End()
		return err
	}
	d.fleet, d.decider = f, f.ring
	return nil
}

// peerTLS returns the configuration for links to a member. This member shows its certificate, if it has one.
func (d *Daemon) peerTLS(m census.Member, roots *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: m.ServerName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return cmp.Or(d.certs.Certificate(), new(tls.Certificate)), nil
		},
	}
}

// start finds members until ctx ends.
func (f *fleet) start(ctx context.Context, d *Daemon) {
	var listed []census.Member
	go d.cfg.Peers.Members.Watch(ctx, func(all []census.Member) {
		d.logListed(listed, all)
		listed = all
		if err := f.ring.Use(all); err != nil {
			d.log.Error("a peer cannot be used", "error", err)
		}
	}, func(source string, err error) {
		d.log.Warn("peers cannot be looked up: the known peers stay", "source", source, "error", err)
	})
}

// logListed logs what is notable about the members that are listed now.
func (d *Daemon) logListed(was, all []census.Member) {
	switch {
	case len(all) == len(was):
	case len(all) == 1:
		d.log.Info("the fleet has one member, which owns all keys", "peer", all[0].Name)
	case len(all) == 2:
		d.log.Warn("there are two peers: if one dies, the other cannot tell that from a broken network, and decides by half of each limit: use three or more")
	}
	self := d.cfg.Peers.Self
	is := func(m census.Member) bool { return m.Name == self }
	if self != "" && !slices.ContainsFunc(all, is) && (was == nil || slices.ContainsFunc(was, is)) {
		var names []string
		for _, m := range all {
			names = append(names, m.Name)
		}
		d.log.Error("--self is none of the peers that were found: this instance owns keys only if a peer lists it", "self", self, "found", strings.Join(names, ","))
	}
}

// joinTime is for how long an instance is not ready because it has not joined its peers.
const joinTime = 5 * time.Second

// ready returns an error while the instance joins the fleet.
func (f *fleet) ready() error {
	if f == nil || f.ring.Ready() || time.Since(f.began) > joinTime {
		return nil
	}
	return errors.New("joining its peers")
}

// waiting returns how many requests wait, here or at other members.
func (f *fleet) waiting() int {
	if f == nil {
		return 0
	}
	return f.ring.Waiting()
}

// leaveTime bounds the time in which the state of a member that leaves moves to others.
const leaveTime = 5 * time.Second

// leave has the peers take over the keys of this instance. It reports whether there are peers that can: this instance decides
// about no key then, and asks them.
func (f *fleet) leave(d *Daemon) (moved bool) {
	if f == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	start := time.Now()
	moved, err := f.ring.Leave(ctx)
	switch {
	case err != nil:
		d.log.Warn("not all keys were handed over to peers: these have full buckets there", "error", err)
	case moved:
		d.log.Info("the keys of this instance have moved to its peers", "took", time.Since(start).Round(time.Millisecond))
	}
	return moved || err != nil
}

// shutdown ends the links of peers to this instance, and its links to them.
func (f *fleet) shutdown(ctx context.Context) {
	if f != nil {
		_ = f.handler.Shutdown(ctx) // its requests have been answered, or the peers ask again elsewhere
	}
}

// disconnect ends all links.
func (f *fleet) disconnect() {
	if f != nil {
		f.ring.End()
	}
}

// serve returns a handler that serves peers, and next else.
func (f *fleet) serve(next http.Handler) http.Handler {
	if f == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.Path {
			f.handler.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// reload puts rules into force that the server has accepted.
func (f *fleet) reload(rules *config.Rules) {
	if f != nil {
		_ = f.ring.Reload(rules) // no error: the server has accepted them
	}
}

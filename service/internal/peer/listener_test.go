package peer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// public returns an http.Server with the bounds of weir serve's public listener.
func public(h *serve.Handler, conns *connlimit.Listener) *http.Server {
	mux := http.NewServeMux()
	mux.Handle(wire.Path, h)
	srv := httpserve.New(httpserve.Leave(mux, func(*http.Request) bool { return true }), slog.New(slog.DiscardHandler))
	srv.ReadHeaderTimeout, srv.WriteTimeout, srv.IdleTimeout = 10*time.Second, 10*time.Second, 10*time.Second
	srv.ConnState, srv.ConnContext = conns.ConnState, conns.ConnContext
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	return srv
}

// The public listener neither times a link out nor replaces it by other connections, and http.Server
// does not wait for it.
func TestPublicListener(t *testing.T) {
	bubble(t, func(t *testing.T) {
		pipes := pipenet.Listen()
		conns := connlimit.New(pipes, 4)
		conns.HelloTime = 10 * time.Second
		h := newHandler(t, serve.Config{Decider: newServer(t, server.Config{}, slow()), Secret: secret})
		srv := public(h, conns)
		go func() { _ = srv.Serve(conns) }()
		c, err := peer.New(peer.Config{URL: "http://weir", Secret: secret, Dial: pipes.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		synctest.Wait()
		for range 100 {
			conn, err := pipes.Dial(t.Context(), "tcp", "weir")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		decide(c, "a", 1)
		results := waiters(t, t.Context(), c, "a", 1)
		if st := c.Stats(); !st.State.Up || st.Connects != 1 {
			t.Errorf("%+v", st)
		}
		if n := conns.Count(); n.Open != 1 {
			t.Errorf("%+v", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began := time.Now()
		if err := srv.Shutdown(ctx); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-results; err != nil {
			t.Error(err)
		}
	})
}

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	signed := a.sign(t, "authority")
	a.cert, a.key = signed.Leaf, signed.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

// sign returns a certificate of the authority; its own if it has none.
func (a *authority) sign(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: a.cert == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	by, with := a.cert, a.key
	if by == nil {
		by, with = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, by, &key.PublicKey, with)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Links work over TLS with certificates of both sides. A Client without one is refused, and it refuses a server of
// another authority, and one with another name.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := connlimit.New(ln, 10)
	conns.TLS = &tls.Config{
		Certificates: []tls.Certificate{a.sign(t, "weir-0")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool,
		NextProtos: []string{"h2", "http/1.1"},
	}
	h := newHandler(t, serve.Config{Decider: newServer(t, server.Config{}, slow())})
	srv := public(h, conns)
	go func() { _ = srv.Serve(conns) }()
	defer srv.Close()
	url := "https://" + ln.Addr().String()
	c := dial(t, peer.Config{URL: url, TLS: &tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{a.sign(t, "weir-1")}}})
	if v, err := decide(c, "a", 1); err != nil || !v.OK {
		t.Errorf("%+v %v", v, err)
	}
	for name, cfg := range map[string]*tls.Config{
		"certificate required": {RootCAs: a.pool},
		"unknown authority":    {Certificates: []tls.Certificate{a.sign(t, "weir-1")}},
		"not weir-9":           {RootCAs: a.pool, Certificates: []tls.Certificate{a.sign(t, "weir-1")}, ServerName: "weir-9"},
	} {
		failed := make(chan error, 100)
		other, err := peer.New(peer.Config{URL: url, TLS: cfg, OnState: func(s peer.State) {
			select {
			case failed <- s.Err:
			default:
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-failed; err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: want %q", err, name)
		}
		var v decider.Verdict
		if err := other.Decide(t.Context(), &decider.Request{Key: "a", N: 1}, &v); !errors.Is(err, wire.ErrUnavailable) {
			t.Error(err)
		}
		other.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// A decision over the link allocates nothing, at both ends together.
func TestAllocations(t *testing.T) {
	s := newServer(t, server.Config{}, one("all", quota(1e6, time.Second, config.GCRA)))
	c := dial(t, peer.Config{URL: loopback(t, newHandler(t, serve.Config{Decider: s, Now: s.Now})), Now: s.Now})
	var v decider.Verdict
	req := decider.Request{Key: "user:42", N: 1}
	n := testing.AllocsPerRun(1000, func() {
		if err := c.Decide(context.Background(), &req, &v); err != nil || !v.OK {
			t.Fatal(v, err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(t, err)
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	fatal(t, err)
	a.cert, err = x509.ParseCertificate(der)
	fatal(t, err)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// sign returns a certificate for this machine, and its key, as PEM.
func (a *authority) sign(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &k.PublicKey, a.key)
	fatal(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(k)
	fatal(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// config returns the configuration of a client that trusts the authority. If the other
// authority is not nil, it signs the certificate of the client.
func (a *authority) config(t *testing.T, signed *authority) *tls.Config {
	t.Helper()
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AppendCertsFromPEM(a.pem)
	if signed != nil {
		cert, err := tls.X509KeyPair(signed.sign(t, 9))
		fatal(t, err)
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg
}

// client returns a client with the configuration, and a connection for each request.
func (a *authority) client(t *testing.T, signed *authority, http2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: a.config(t, signed), DisableKeepAlives: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetHTTP2(http2)
	return &http.Client{Transport: tr}
}

// A tlsFiles has the paths of the files of a server with TLS.
type tlsFiles struct {
	t             *testing.T
	cert, key, ca string
}

// newTLSFiles writes a certificate that an authority has signed. The clients have the same
// authority.
func newTLSFiles(t *testing.T, a *authority) tlsFiles {
	t.Helper()
	dir := t.TempDir()
	f := tlsFiles{t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")}
	f.renew(a, 1)
	f.trust(a)
	return f
}

// renew replaces the certificate.
func (f tlsFiles) renew(a *authority, serial int64) {
	f.t.Helper()
	cert, key := a.sign(f.t, serial)
	fatal(f.t, os.WriteFile(f.cert, cert, 0o600))
	fatal(f.t, os.WriteFile(f.key, key, 0o600))
}

// trust replaces the authority of clients.
func (f tlsFiles) trust(a *authority) {
	f.t.Helper()
	fatal(f.t, os.WriteFile(f.ca, a.pem, 0o600))
}

// flags returns the flags of a server with TLS. With mutual, clients need a certificate too.
func (f tlsFiles) flags() []string  { return []string{"--tls-cert", f.cert, "--tls-key", f.key} }
func (f tlsFiles) mutual() []string { return append(f.flags(), "--client-ca", f.ca) }

// It is not parallel: another test's SIGHUP would be a reload before the files are written.
func TestServeTLS(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "another")
	files := newTLSFiles(t, ca)
	s := serving(t, append(files.mutual(), "--watch-interval", "1h")...)

	for _, tt := range []struct {
		rule   string
		client *http.Client
		proto  string // empty: refused
	}{
		{"HTTP/2", ca.client(t, ca, true), "HTTP/2.0"},
		{"HTTP/1.1", ca.client(t, ca, false), "HTTP/1.1"},
		{"a client without a certificate", ca.client(t, nil, true), ""},
		{"a certificate of another authority", ca.client(t, other, true), ""},
	} {
		a, err := tryAsk(tt.client, "POST", s.public+"/rate/a")
		if (err != nil) != (tt.proto == "") || a.proto != tt.proto {
			t.Errorf("%s: %v, %v: want %s", tt.rule, a, err, tt.proto)
		}
	}

	serial := func() int64 {
		resp, err := ca.client(t, ca, true).Get(s.public + "/healthz")
		fatal(t, err)
		resp.Body.Close()
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(); n != 1 {
		t.Errorf("certificate %d: want the first", n)
	}
	files.renew(ca, 2)
	s.until("msg=reloaded")
	if n := serial(); n != 2 {
		t.Errorf("certificate %d: want the new one", n)
	}
	fatal(t, os.WriteFile(files.key, []byte("not a key"), 0o600))
	s.until("reload failed")
	if n := serial(); n != 2 {
		t.Errorf("certificate %d: want the last good one", n)
	}
	s.end()
}

// A client of an authority that is removed cannot resume its session. On a connection that is
// open it gets one more answer.
func TestServeTLSRemovedAuthority(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "another")
	files := newTLSFiles(t, ca)
	s := serving(t, append(files.mutual(), "--watch-interval", "1h")...)
	stays := map[string]*http.Client{"HTTP/1.1": ca.client(t, ca, false), "HTTP/2.0": ca.client(t, ca, true)}
	get := func(c *http.Client) (*http.Response, error) {
		resp, err := c.Get(s.public + "/healthz")
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return resp, err
	}
	for proto, c := range stays {
		c.Transport.(*http.Transport).DisableKeepAlives = false
		resp, err := get(c)
		fatal(t, err)
		if resp.Proto != proto {
			t.Errorf("%s: want %s", resp.Proto, proto)
		}
	}
	returns := ca.client(t, ca, false)
	returns.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	for _, resumed := range []bool{false, true} {
		resp, err := get(returns)
		fatal(t, err)
		if resp.TLS.DidResume != resumed {
			t.Errorf("resumed: %v, want %v", resp.TLS.DidResume, resumed)
		}
	}
	files.trust(other)
	s.until("msg=reloaded")
	if resp, err := get(returns); err == nil {
		t.Errorf("%d, resumed: %v: want no connection", resp.StatusCode, resp.TLS.DidResume)
	}
	for proto, c := range stays {
		if _, err := get(c); err != nil {
			t.Errorf("%s: %v: want an answer on the open connection", proto, err)
		}
		answers := 0
		for ; answers < 100; answers++ { // HTTP/2: GOAWAY can come after the next request
			if _, err := get(c); err != nil {
				break
			}
		}
		if answers > 5 {
			t.Errorf("%s: %d more answers: want none", proto, answers)
		}
	}
	s.end()
}

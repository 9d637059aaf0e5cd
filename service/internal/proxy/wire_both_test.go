package proxy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

// HTTP/2 on both sides, with TLS or without: bodies, trailers, early hints and errors come
// through as they do through net/http's proxy.
func TestBothSidesHTTP2(t *testing.T) {
	origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "Sum")
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%s %s %s %s, %d bytes, %v, trailer %v", r.Proto, r.Method, r.Host, r.Header, len(body), err, r.Trailer)
		if r.URL.Path == "/abort" {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Sum", "42")
		w.Header().Set(http.TrailerPrefix+"Late", "43")
	})
	for _, secure := range []bool{false, true} {
		for _, both := range []bool{false, true} {
			t.Run(fmt.Sprintf("TLS %v, to the origin %v", secure, both), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := setting{http2Origin: both, origin: origin}
					if secure {
						s.tls = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}, NextProtos: []string{"h2", "http/1.1"}}
					}
					bare, weir := newBare(t, s), newWeir(t, s)
					want, got := converse(t, bare, s), converse(t, weir, s)
					bare.stop()
					weir.stop()
					if want != got {
						t.Errorf("this proxy:%s\nnet/http:%s", got, want)
					}
				})
			})
		}
	}
}

// converse sends requests over HTTP/2, and returns the answers.
func converse(t *testing.T, f *front, s setting) (all string) {
	var protocols http.Protocols
	protocols.SetHTTP2(s.tls != nil)
	protocols.SetUnencryptedHTTP2(s.tls == nil)
	scheme := "http"
	tr := &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	tr.DialContext = f.dialer()
	if s.tls != nil {
		scheme = "https"
	}
	defer tr.CloseIdleConnections()
	for _, ask := range []struct {
		method, path string
		size         int
		trailer      bool
	}{{"GET", "/", 0, false}, {"POST", "/", 5, false}, {"POST", "/", 300_000, true}, {"PUT", "/", 100_000, false}, {"GET", "/abort", 0, false}, {"DELETE", "/", 0, false}} {
		var body io.Reader
		if ask.size > 0 {
			body = io.LimitReader(strings.NewReader(strings.Repeat("x", ask.size)), int64(ask.size))
		}
		req, err := http.NewRequestWithContext(t.Context(), ask.method, scheme+"://shop.example"+ask.path, body)
		testrig.Must(t, err)
		if ask.size > 0 && !ask.trailer {
			req.ContentLength = int64(ask.size)
		}
		if ask.trailer {
			req.Trailer = http.Header{"Check": {"7"}}
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			all += fmt.Sprintf("\n\t%s %s: %v", ask.method, ask.path, err)
			continue
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		resp.Header.Del("Date")
		all += fmt.Sprintf("\n\t%s %s: %d %s %v %q, trailer %v, %v", ask.method, ask.path, resp.StatusCode, resp.Proto, resp.Header, text, resp.Trailer, err)
	}
	return all
}

// selfSigned returns a certificate.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testrig.Must(t, err)
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	testrig.Must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

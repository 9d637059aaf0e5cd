package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/weir-go/weir/service/bench/internal/process"
)

// serveOrigin serves small and large answers.
func serveOrigin(addr string) error {
	small, large := []byte("ok\n"), bytes.Repeat([]byte("x"), 64<<10)
	http.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(small) })
	http.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(large) })
	return http.ListenAndServe(addr, nil)
}

// bare starts this program as a proxy of net/http: bare, or with heapfloor.
func bare(kind, self, dir, origin string) func(bool) (*process.Process, error) {
	return func(tls bool) (*process.Process, error) {
		args := []string{"-serve", kind, origin}
		if tls {
			cert, key := certificatePaths(dir)
			args = append(args, cert, key)
		}
		return process.Start(self, args...)
	}
}

// serveBare serves the ReverseProxy of net/http. The arguments are the origin, the
// certificate and the key for TLS, and the address.
func serveBare(args []string) error {
	target := &url.URL{Scheme: "http", Host: args[0]}
	var pool sync.Pool
	srv := &http.Server{
		Addr: args[len(args)-1], ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Host = r.In.Host
				r.SetXForwarded()
			},
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
				MaxIdleConnsPerHost: 4096, IdleConnTimeout: 90 * time.Second, ExpectContinueTimeout: time.Second, DisableCompression: true,
			},
			BufferPool: buffers{&pool},
			ErrorLog:   log.Default(),
		},
	}
	if len(args) == 4 {
		return srv.ListenAndServeTLS(args[1], args[2])
	}
	return srv.ListenAndServe()
}

// buffers reuses the buffers for copying bodies.
type buffers struct{ pool *sync.Pool }

func (b buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 32<<10)
}

func (b buffers) Put(buf []byte) { b.pool.Put(&buf) }

// weirProxy starts the proxy of the binary, with further flags.
func weirProxy(path, dir, origin string, flags ...string) func(bool) (*process.Process, error) {
	return func(tls bool) (*process.Process, error) {
		args := []string{"proxy", "--origin", "http://" + origin, "--admin", "127.0.0.1:0", "--log-level", "error", "--drain-delay", "0s"}
		args = append(args, flags...)
		if tls {
			cert, key := certificatePaths(dir)
			args = append(args, "--tls-cert", cert, "--tls-key", key)
		}
		return process.Start(path, append(args, "--listen")...)
	}
}

// nginxConf is the configuration of nginx. It keeps connections to the origin, which it does
// not by default, and logs no access, as the others.
const nginxConf = `worker_processes auto;
error_log stderr error;
pid %[1]s/nginx.pid;
daemon off;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	keepalive_requests 10000000;
	upstream origin { server %[2]s; keepalive 256; keepalive_requests 10000000; }
	server {
		listen %[3]s;
		%[4]s
		location / {
			proxy_pass http://origin;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $http_host;
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}
}
`

// nginx starts nginx. Its workers, which are its children, serve.
func nginx(dir, origin string) func(bool) (*process.Process, error) {
	return configured(dir, "nginx.conf", func(addr string, tls bool) (string, error) {
		if !tls {
			return fmt.Sprintf(nginxConf, dir, origin, addr, ""), nil
		}
		cert, key := certificatePaths(dir)
		return fmt.Sprintf(nginxConf, dir, origin, addr+" ssl http2", fmt.Sprintf("ssl_certificate %s; ssl_certificate_key %s;", cert, key)), nil
	}, func(file string) []string { return []string{"nginx", "-p", dir, "-c", file} })
}

// writeCertificate writes a certificate of 127.0.0.1 and its key.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certPath, keyPath := certificatePaths(dir)
	if err := os.WriteFile(certPath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}

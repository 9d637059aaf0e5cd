// Package certfile loads certificates, keys and authorities for TLS from PEM files, and
// replaces those in force when the files have changed.
package certfile

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/service/internal/inputfile"
)

// pair loads a certificate with its chain, and its private key.
func pair(cert, key string) (*tls.Certificate, error) {
	chain, err := inputfile.Read(cert, inputfile.MaxPEM)
	if err != nil {
		return nil, err
	}
	private, err := inputfile.Read(key, inputfile.MaxPEM)
	if err != nil {
		return nil, err
	}
	both, err := tls.X509KeyPair(chain, private)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", cert, key, err)
	}
	return &both, nil
}

// Files names the files of one side of TLS. An empty name stands for none.
type Files struct {
	Cert, Key string
	CA        string // authorities of the other side
}

// Paths returns the names that are not empty.
func (f Files) Paths() (paths []string) {
	for _, path := range []string{f.Cert, f.Key, f.CA} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// load loads the files. It returns what is valid, and an error for the rest.
func (f Files) load() (p pems, err error) {
	var wrong [2]error
	switch {
	case (f.Cert == "") != (f.Key == ""):
		wrong[0] = errors.New("a certificate needs a key, and a key a certificate")
	case f.Cert != "":
		p.cert, wrong[0] = pair(f.Cert, f.Key)
	}
	if f.CA != "" {
		p.ca, wrong[1] = inputfile.Authorities(f.CA)
	}
	return p, errors.Join(wrong[:]...)
}

// pems is the content of Files.
type pems struct {
	cert *tls.Certificate
	ca   *x509.CertPool
}

// A Set is the content of Files in force. It is safe for concurrent use.
type Set struct {
	files   Files
	mu      sync.Mutex // one Load at a time
	inForce atomic.Pointer[pems]
	changes atomic.Uint64
}

// Open loads the files.
func Open(files Files) (*Set, error) {
	s := &Set{files: files}
	p, err := files.load()
	s.inForce.Store(&p)
	return s, err
}

// Load loads the files again. A file with a mistake keeps its last good content.
func (s *Set) Load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.inForce.Load()
	p, err := s.files.load()
	p.cert, p.ca = cmp.Or(p.cert, old.cert), cmp.Or(p.ca, old.ca)
	s.inForce.Store(&p)
	if p.ca != nil && !p.ca.Equal(old.ca) {
		s.changes.Add(1)
	}
	return err
}

// Certificate returns the certificate in force; nil if there is none.
func (s *Set) Certificate() *tls.Certificate { return s.inForce.Load().cert }

// Changes returns how often the authorities have changed.
func (s *Set) Changes() uint64 { return s.changes.Load() }

// changesKey is the context key for Set.Changes as of the beginning of a connection.
type changesKey struct{}

// Begin returns the context of a connection that begins, for Outdated.
func (s *Set) Begin(ctx context.Context) context.Context {
	if s.files.CA == "" {
		return ctx
	}
	return context.WithValue(ctx, changesKey{}, s.Changes())
}

// Outdated reports whether the authorities have changed since the connection of a request began.
func (s *Set) Outdated(ctx context.Context) bool {
	return s.files.CA != "" && ctx.Value(changesKey{}) != s.Changes()
}

// Server returns the configuration of a server's handshakes, with the names of the
// protocols after it. Each handshake uses the content in force. If there are authorities,
// clients must have a certificate of one of them.
func (s *Set) Server(protocols ...string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		p := s.inForce.Load()
		cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*p.cert}, NextProtos: protocols}
		if p.ca != nil {
			cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, p.ca
		}
		return cfg, nil
	}}
}

// Plain returns the configuration of a server's handshakes, as Server does, without certificates of clients.
func (s *Set) Plain(protocols ...string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return s.Certificate(), nil
	}}
}

// Client returns the configuration of a client's handshakes with servers, by the content in
// force. If there are no authorities, those of the system count. A server must have a
// certificate for name; if that is empty, for the name by which it is called.
func (s *Set) Client(name string) *tls.Config {
	p := s.inForce.Load()
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, RootCAs: p.ca}
	if p.cert != nil {
		cfg.Certificates = []tls.Certificate{*p.cert}
	}
	return cfg
}

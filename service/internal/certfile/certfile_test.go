package certfile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

// write writes a self-signed certificate and its key.
func write(t *testing.T, f Files, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testrig.Must(t, err)
	cert := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"weir.example"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	testrig.Must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	testrig.Must(t, err)
	put(t, f.Cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	put(t, f.Key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

func put(t *testing.T, path, text string) {
	t.Helper()
	testrig.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// shake makes a handshake, and returns the serial number of the server's certificate.
func shake(t *testing.T, server, client *tls.Config) (serial int64, err error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go func() { _ = tls.Server(a, server).Handshake() }()
	c := tls.Client(b, client)
	if err = c.Handshake(); err != nil {
		return 0, err
	}
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

// A change is in force for the next handshake; a file with a mistake keeps its last good
// content, and only this one.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	f := Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	write(t, f, 1)
	server, err := Open(f)
	testrig.Must(t, err)
	ca := Files{CA: filepath.Join(dir, "ca.pem")}
	trust := func() {
		text, err := os.ReadFile(f.Cert)
		testrig.Must(t, err)
		put(t, ca.CA, string(text))
	}
	trust()
	client, err := Open(ca)
	testrig.Must(t, err)
	cfg := server.Server()
	if n, err := shake(t, cfg, client.Client("weir.example")); n != 1 || err != nil {
		t.Errorf("certificate %d, %v", n, err)
	}
	if _, err := shake(t, cfg, client.Client("other.example")); err == nil {
		t.Error("a certificate of another name is accepted")
	}
	before := client.Begin(t.Context())
	if client.Outdated(before) {
		t.Error("a connection is outdated as it begins")
	}
	write(t, f, 2)
	testrig.Must(t, server.Load())
	if _, err := shake(t, cfg, client.Client("weir.example")); err == nil {
		t.Error("a certificate of another authority is accepted")
	}
	trust()
	if err := client.Load(); err != nil || client.Changes() != 1 {
		t.Errorf("%v, %d changes", err, client.Changes())
	}
	if !client.Outdated(before) || client.Outdated(client.Begin(t.Context())) || server.Outdated(server.Begin(t.Context())) {
		t.Error("want the connections from before the change alone to be outdated")
	}
	if n, err := shake(t, cfg, client.Client("weir.example")); n != 2 || err != nil {
		t.Errorf("certificate %d, %v: want the new one", n, err)
	}
	put(t, f.Key, "no key")
	if err := server.Load(); err == nil || !strings.Contains(err.Error(), f.Key) {
		t.Errorf("%v: want an error that names the file", err)
	}
	put(t, ca.CA, "no authority")
	if err := client.Load(); err == nil || client.Changes() != 1 {
		t.Errorf("%v, %d changes", err, client.Changes())
	}
	if n, err := shake(t, cfg, client.Client("weir.example")); n != 2 || err != nil {
		t.Errorf("certificate %d, %v: want the last good one", n, err)
	}
}

func TestOpenRefused(t *testing.T) {
	for want, f := range map[string]Files{
		"needs a key":             {Cert: "a"},
		"a key a certificate":     {Key: "a"},
		"open /none":              {Cert: "/none", Key: "/none"},
		"/none: no such file":     {CA: "/none"},
		"there is no certificate": {CA: os.DevNull},
	} {
		if _, err := Open(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v: want %s", f, err, want)
		}
	}
}

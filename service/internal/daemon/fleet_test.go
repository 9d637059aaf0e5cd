package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/ring/census"
)

// A member that is found by the name of a service must have a certificate for that name, of the authorities of
// --peer-ca.
func TestPeerTLS(t *testing.T) {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate()) // for example.com
	for _, row := range []struct {
		name  string
		roots *x509.CertPool
		err   string
	}{
		{"example.com", roots, ""},
		{"weir.example.org", roots, "not weir.example.org"},
		{"example.com", x509.NewCertPool(), "unknown authority"},
	} {
		dial := tls.Dialer{Config: new(Daemon).peerTLS(census.Member{ServerName: row.name}, row.roots)}
		conn, err := dial.DialContext(context.Background(), "tcp", srv.Listener.Addr().String())
		if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: %v, want %q", row.name, err, row.err)
		}
		if err == nil {
			conn.Close()
		}
	}
}

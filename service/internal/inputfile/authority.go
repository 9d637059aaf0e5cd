package inputfile

import (
	"crypto/x509"
	"fmt"
)

// MaxPEM bounds a file of certificates or of a key, in bytes.
const MaxPEM = 4 << 20

// Authorities returns the certificates of authorities in a PEM file; nil if path is empty. The error names
// the file.
func Authorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := Read(path, MaxPEM)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: there is no certificate in it", path)
	}
	return pool, nil
}

package discover

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-go/weir/service/internal/ring/census"
)

// DefaultAccount is the directory of a pod's service account.
const DefaultAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Bounds of an answer of the API.
const (
	maxSlices = 8 << 20
	maxFile   = 1 << 20
)

// A kubernetes source lists the pods of a Service, by its EndpointSlices. The service account
// needs the right to list endpointslices (discovery.k8s.io) in its namespace.
type kubernetes struct {
	scheme, service, port string
	account, api          string
}

func newKubernetes(u *url.URL, cfg Config) (*kubernetes, error) {
	k := &kubernetes{scheme: "http", service: u.Hostname(), port: u.Port(), account: cmp.Or(cfg.Account, DefaultAccount), api: cfg.API}
	if u.Scheme == "kubernetes+https" {
		k.scheme = "https"
	}
	if k.api == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, errors.New("this process does not run in a Kubernetes cluster: $KUBERNETES_SERVICE_HOST is not set")
		}
		k.api = "https://" + net.JoinHostPort(host, port)
	}
	return k, nil
}

func (k *kubernetes) text() string { return "kubernetes://" + k.service + ":" + k.port }

// endpointSlices is the part of a list of discovery.k8s.io/v1 that is used.
type endpointSlices struct {
	Items []struct {
		AddressType string `json:"addressType"`
		Endpoints   []struct {
			Addresses  []string `json:"addresses"`
			Conditions struct {
				Serving     *bool `json:"serving"`
				Ready       *bool `json:"ready"`
				Terminating *bool `json:"terminating"`
			} `json:"conditions"`
			TargetRef *struct {
				Kind string `json:"kind"`
				Name string `json:"name"`
			} `json:"targetRef"`
		} `json:"endpoints"`
	} `json:"items"`
}

// members lists all pods, also pods that are not ready: a pod is ready only after it has found
// its peers. Terminating pods are left out; they stay members for as long as they answer.
func (k *kubernetes) members(ctx context.Context) ([]census.Member, error) {
	body, namespace, err := k.list(ctx)
	if err != nil {
		return nil, err
	}
	var all endpointSlices
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, fmt.Errorf("the list of EndpointSlices cannot be read: %w", err)
	}
	byName := map[string]census.Member{}
	var members []census.Member
	for _, slice := range all.Items {
		for _, e := range slice.Endpoints {
			if slice.AddressType == "FQDN" || len(e.Addresses) == 0 || e.Conditions.Terminating != nil && *e.Conditions.Terminating {
				continue
			}
			u := k.scheme + "://" + net.JoinHostPort(e.Addresses[0], k.port)
			m := census.Member{Name: u, URL: u, ServerName: k.service + "." + namespace + ".svc"}
			if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
				m.Name = e.TargetRef.Name
			}
			if _, known := byName[m.Name]; !known { // an IPv4 and an IPv6 address of the same pod
				byName[m.Name] = m
				members = append(members, m)
			}
		}
	}
	return members, nil
}

// list asks the API for the EndpointSlices of the Service. The token is read each time, because
// it is replaced before it expires.
func (k *kubernetes) list(ctx context.Context) (body []byte, namespace string, err error) {
	token, err := k.file("token")
	if err != nil {
		return nil, "", err
	}
	space, err := k.file("namespace")
	if err != nil {
		return nil, "", err
	}
	client, err := k.client()
	if err != nil {
		return nil, "", err
	}
	defer client.CloseIdleConnections()
	namespace = string(space)
	query := url.Values{"labelSelector": {"kubernetes.io/service-name=" + k.service}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, k.api+"/apis/discovery.k8s.io/v1/namespaces/"+url.PathEscape(namespace)+"/endpointslices?"+query.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Authorization", "Bearer "+string(token))
	r.Header.Set("Accept", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxSlices+1))
	switch {
	case err != nil:
		return nil, "", err
	case resp.StatusCode != http.StatusOK:
		return nil, "", fmt.Errorf("the API of Kubernetes answers %s: %.200s", resp.Status, strings.TrimSpace(string(body)))
	case len(body) > maxSlices:
		return nil, "", fmt.Errorf("the list of EndpointSlices has more than %d bytes", maxSlices)
	}
	return body, namespace, nil
}

// client returns a client that trusts the authority of the cluster.
func (k *kubernetes) client() (*http.Client, error) {
	roots := x509.NewCertPool()
	ca, err := k.file("ca.crt")
	if err != nil {
		return nil, err
	}
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s: there is no certificate in it", filepath.Join(k.account, "ca.crt"))
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}}, nil
}

// file reads a file of the service account.
func (k *kubernetes) file(name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(k.account, name))
	if err != nil {
		return nil, fmt.Errorf("the pod has no service account: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return bytes.TrimSpace(b), err
}

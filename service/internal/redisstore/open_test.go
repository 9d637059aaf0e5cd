//go:build system

package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/service/internal/redisstore"
)

// The master gets the user and the password before the host.
func TestSentinelPassword(t *testing.T) {
	p := redistest.StartPair(t, "redis-server")
	for _, s := range []*redistest.Server{p.Master, p.Replica} {
		s.Do("CONFIG", "SET", "masterauth", "secret")
	}
	p.Sentinel.Do("SENTINEL", "SET", redistest.MasterName, "auth-pass", "secret")
	for _, s := range []*redistest.Server{p.Replica, p.Master} {
		s.Do("CONFIG", "SET", "requirepass", "secret")
	}
	if r, lines := checked(t, "redis://:secret@"+p.Sentinel.Addr+"?master_name="+redistest.MasterName, time.Second); !r.Fit || strings.Contains(lines, "secret") {
		t.Error(lines)
	}
	p.Sentinel.Do("ACL", "SETUSER", "default", "resetpass", ">other")
	if r, lines := checked(t, "redis://:secret@"+p.Sentinel.Addr+"?sentinel_password=other&master_name="+redistest.MasterName, time.Second); !r.Fit || strings.Contains(lines, "other") {
		t.Error(lines)
	}
}

// Certificates are compared with the host of each address, or with server_name.
func TestServerName(t *testing.T) {
	for query, want := range map[string]string{
		"": "first", "?server_name=fleet": "fleet",
		"?cluster=true": "", "?cluster=true&server_name=fleet": "fleet",
		"?master_name=main": "", "?master_name=main&server_name=fleet": "fleet",
	} {
		c, err := redisstore.Open("rediss://first:6379" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var got string
		switch client := c.UniversalClient.(type) {
		case *redis.ClusterClient:
			got = client.Options().TLSConfig.ServerName
		case *redis.Client:
			got = client.Options().TLSConfig.ServerName
		}
		if got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	for query, want := range map[string]string{
		"?password=x": "before the host", "?pool_size=-4": "pool_size = -4", "?cluster=true&pool_size=-4": "pool_size = -4", "/-1": "the database is -1",
		"?master_name=": "master_name is empty", "?addr=h:1": "addr needs", "?sentinel_password=x": "need master_name", "?server_name=x": "scheme rediss", "/3?cluster=true": "a Cluster has 0",
	} {
		if _, err := redisstore.Open("redis://host:6379" + query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", query, err, want)
		}
	}
}

// Package redisstore connects weir serve to Redis or Valkey, by a URL:
//
//	redis://user:password@host:6379/0
//	rediss://host:6379?ca=/etc/ca.pem                                 with TLS
//	redis://host1:26379?addr=host2:26379&master_name=main             by Sentinels
//	redis://host1:6379?addr=host2:6379&cluster=true                   a Cluster
//
// The schemes valkey and valkeys mean the same. The client, github.com/redis/go-redis, reads the
// other parameters.
package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/service/internal/inputfile"
)

// A Client is a connection pool to a server, Sentinels or a Cluster. It connects when it is
// first used.
type Client struct {
	redis.UniversalClient
	cluster *redis.ClusterClient // nil if it is not one
	Address string               // the URL without a password
}

// quiet ends the log of the client, for the whole process: callers learn of failures by errors.
var quiet = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Open returns a Client for a URL. The error says what is wrong with the URL or with a file that
// it names.
func Open(text string) (*Client, error) {
	quiet()
	u, own, err := parse(text)
	if err != nil {
		return nil, err
	}
	secure, err := own.tls()
	if err != nil {
		return nil, err
	}
	if secure != nil && u.Scheme != "rediss" {
		return nil, errors.New("the parameters ca, cert and key need the scheme rediss or valkeys")
	}
	c := &Client{Address: redacted(text)}
	switch {
	case own.cluster:
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, plain(err)
		}
		own.setTLS(o.TLSConfig, secure, true)
		if err := sizes(o.PoolSize, 0); err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1 // the link gives up in time
		c.cluster = redis.NewClusterClient(o)
		c.UniversalClient = c.cluster
	case u.Query().Has("master_name"):
		o, err := redis.ParseFailoverURL(u.String())
		if err != nil {
			return nil, plain(err)
		}
		own.setTLS(o.TLSConfig, secure, true)
		if err := sizes(o.PoolSize, o.DB); err != nil {
			return nil, err
		}
		// The client gives user and password of the URL to the Sentinels alone.
		o.Username, o.Password = o.SentinelUsername, o.SentinelPassword
		o.SentinelUsername, o.SentinelPassword = own.sentinelUser, own.sentinelPassword
		o.ContextTimeoutEnabled, o.DialerRetries, o.MaxRetries = true, 1, own.retries(o.MaxRetries)
		c.UniversalClient = redis.NewFailoverClient(o)
	default:
		o, err := redis.ParseURL(u.String())
		if err != nil {
			return nil, plain(err)
		}
		own.setTLS(o.TLSConfig, secure, false)
		if err := sizes(o.PoolSize, o.DB); err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled, o.DialerRetries, o.MaxRetries = true, 1, own.retries(o.MaxRetries)
		c.UniversalClient = redis.NewClient(o)
	}
	return c, nil
}

// Cluster reports whether the URL is for a Cluster.
func (c *Client) Cluster() bool { return c.cluster != nil }

// Link returns the configuration of a link to the server.
func (c *Client) Link(timeout time.Duration) redislink.Config {
	cfg := redislink.Config{
		Send: func(ctx context.Context, calls []*redislink.Call, source bool) []redislink.Answer {
			return redislink.Send(ctx, c.Pipeline(), calls, source)
		},
		Timeout: timeout,
	}
	if c.cluster != nil {
		cfg.Cluster, cfg.Reload = true, c.cluster.ReloadState
	}
	return cfg
}

// own are the parameters of a URL that the client does not know.
type own struct {
	cluster       bool
	retry         bool // the URL says how often to retry
	ca, cert, key string
	serverName    string // in the certificates; if empty, the host of each address

	sentinelUser, sentinelPassword string
}

// redacted returns a URL without its passwords.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	if q := u.Query(); q.Has("sentinel_password") {
		q.Set("sentinel_password", "xxxxx")
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}

// sizes checks numbers that the client does not.
func sizes(pool, database int) error {
	switch {
	case pool < 0:
		return fmt.Errorf("pool_size = %d: must be >= 0", pool)
	case database < 0:
		return fmt.Errorf("the database is %d: must be >= 0", database)
	}
	return nil
}

// parse returns a URL as the client knows it, and its own parameters.
func parse(text string) (u *url.URL, o own, err error) {
	if u, err = url.Parse(text); err != nil {
		return nil, o, errors.New("not a URL: want redis://host:6379/0, or rediss:// with TLS")
	}
	switch u.Scheme {
	case "redis", "rediss":
	case "valkey":
		u.Scheme = "redis"
	case "valkeys":
		u.Scheme = "rediss"
	default:
		return nil, o, fmt.Errorf("the scheme is %q: want redis, rediss, valkey or valkeys", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, o, errors.New("the URL has no host: want redis://host:6379/0")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, o, fmt.Errorf("the port is %s: want 1 to 65535", port)
		}
	}
	q := u.Query()
	take := func(name string) string {
		value := q.Get(name)
		q.Del(name)
		return value
	}
	if q.Has("username") || q.Has("password") {
		return nil, o, errors.New("user and password stand before the host: want redis://user:password@host:6379/0")
	}
	o.ca, o.cert, o.key, o.serverName = take("ca"), take("cert"), take("key"), take("server_name")
	o.sentinelUser, o.sentinelPassword = take("sentinel_username"), take("sentinel_password")
	if text := take("cluster"); text != "" {
		if o.cluster, err = strconv.ParseBool(text); err != nil {
			return nil, o, fmt.Errorf("cluster = %q: want true or false", text)
		}
	}
	o.retry = q.Has("max_retries")
	if o.cluster && q.Has("master_name") {
		return nil, o, errors.New("cluster and master_name exclude each other: Sentinels do not watch Clusters")
	}
	switch {
	case q.Has("master_name") && q.Get("master_name") == "":
		return nil, o, errors.New("master_name is empty: give the name by which the Sentinels know the master")
	case q.Has("addr") && !o.cluster && !q.Has("master_name"):
		return nil, o, errors.New("addr needs cluster=true or master_name=NAME")
	case o.sentinelUser+o.sentinelPassword != "" && !q.Has("master_name"):
		return nil, o, errors.New("sentinel_username and sentinel_password need master_name=NAME")
	case o.serverName != "" && u.Scheme != "rediss":
		return nil, o, errors.New("server_name needs the scheme rediss or valkeys")
	case o.cluster && u.Path != "" && u.Path != "/" && u.Path != "/0":
		return nil, o, fmt.Errorf("the database is %s: a Cluster has 0 alone", strings.TrimPrefix(u.Path, "/"))
	}
	if (o.cert == "") != (o.key == "") {
		return nil, o, errors.New("the parameters cert and key: give both, or none")
	}
	u.RawQuery = q.Encode()
	return u, o, nil
}

// tls returns the certificates of the parameters; nil if there are none.
func (o *own) tls() (*tls.Config, error) {
	if o.ca == "" && o.cert == "" {
		return nil, nil
	}
	cfg := new(tls.Config)
	var err error
	if cfg.RootCAs, err = inputfile.Authorities(o.ca); err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// retries returns how often the client sends a call again: not at all unless the URL says so,
// because a call with a lost answer would count twice.
func (o *own) retries(n int) int {
	if o.retry {
		return n
	}
	return -1
}

// setTLS sets the certificates of connections, and the name that those of the server must have.
// With many set, they are to several hosts.
func (o *own) setTLS(cfg, from *tls.Config, many bool) {
	if cfg == nil {
		return
	}
	if from != nil {
		cfg.RootCAs, cfg.Certificates = from.RootCAs, from.Certificates
	}
	if many || o.serverName != "" {
		cfg.ServerName = o.serverName
	}
}

// plain returns an error of the client without its name.
func plain(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "redis: "))
}

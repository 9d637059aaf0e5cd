package respapi_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// What clients send when they connect gets the answers of Redis.
func TestConnecting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := serve(t, respapi.Config{Version: "v1"})
		p := s.dial()
		for _, tt := range [][2]string{
			{"PING", "PONG"}, {"ping hi", "hi"}, {"ECHO hi", "hi"},
			{"CLIENT GETNAME", "<nil>"}, {"CLIENT SETNAME a", "OK"}, {"CLIENT GETNAME", "a"}, {"CLIENT ID", "1"},
			{"CLIENT SETINFO LIB-NAME x", "OK"}, {"CLIENT NO-EVICT ON", "OK"}, {"CLIENT NO-TOUCH on", "OK"}, {"CLIENT TRACKING ON OPTIN", "OK"},
			{"CLIENT SETNAME \xff", "Client names cannot contain spaces, newlines or special characters."},
			{"CLIENT KILL x", "ERR unknown subcommand or wrong number of arguments for 'KILL'. Try CLIENT HELP."},
			{"SELECT 0", "OK"}, {"SELECT 1", "ERR DB index is out of range"}, {"SELECT x", "ERR value is not an integer or out of range"},
			{"COMMAND COUNT", "20"}, {"COMMAND DOCS", "[]"},
			{"COMMAND INFO ping get cl.throttle", "[[ping -1 [fast] 0 0 0] <nil> [cl.throttle -1 [fast] 1 1 1]]"},
			{"CONFIG GET save", "[save ]"}, {"CONFIG GET app* save", "[save  appendonly no]"}, {"CONFIG GET x", "[]"},
			{"CONFIG SET save x", "ERR unknown subcommand or wrong number of arguments for 'SET'. Try CONFIG HELP."},
			{"AUTH x", "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"},
			{"AUTH default x", "OK"},
			{"HELLO", "[server weir version 7.2.4 proto 2 id 1 mode standalone role master modules []]"},
			{"HELLO 4", "NOPROTO unsupported protocol version"},
			{"HELLO 3 x", "ERR Syntax error in HELLO option 'x'"},
			{"HELLO 3 AUTH default x SETNAME b", "map[id:1 mode:standalone modules:[] proto:3 role:master server:weir version:7.2.4]"},
			{"CLIENT GETNAME", "b"}, {"CONFIG GET save", "map[save:]"},
			{"RESET", "RESET"}, {"CLIENT GETNAME", "<nil>"}, {"CONFIG GET save", "[save ]"},
			{"GET a", "ERR unknown command 'GET', with args beginning with: 'a' "},
			{"SET a\r\n b", "ERR unknown command 'SET', with args beginning with: 'a' 'b' "},
			{"g\x00t", "ERR unknown command 'g t', with args beginning with: "},
			{"ECHO", "ERR wrong number of arguments for 'echo' command"},
			{"PING a b", "ERR wrong number of arguments for 'ping' command"},
			{"WEIR.TAKE", "ERR wrong number of arguments for 'weir.take' command"},
			{strings.Repeat("x", 1000), "ERR unknown command '" + strings.Repeat("x", 128) + "', with args beginning with: "},
		} {
			p.wants(tt[0], strings.Replace(tt[1], "Client names", "ERR Client names", 1))
		}
		if info := p.do("INFO").(string); !strings.Contains(info, "\r\nloading:0\r\n") || !strings.Contains(info, "\r\nweir_version:v1\r\n") {
			t.Error(info)
		}
		if all := p.do("COMMAND").([]any); len(all) != 20 {
			t.Errorf("%d commands", len(all))
		}
		p.wants("QUIT", "OK")
		if got := p.read(); fmt.Sprint(got) != "EOF" {
			t.Errorf("after QUIT: %v", got)
		}
		if st := s.Stats(); fmt.Sprint(st.Commands[0]) != "{unknown error 4}" {
			t.Errorf("%+v", st)
		}
	})
}

// rules are a rate, leases, and a rule that allows no quotas.
var rules = []config.Rule{
	{Name: "login", Glob: "login:*", Quota: config.Quota{Rate: config.Rate{Count: 2, Period: time.Minute}}},
	{Name: "jobs", Glob: "jobs*", Concurrency: &config.Concurrency{Limit: 2, TTL: 10 * time.Second}},
}

// The replies of WEIR.* have the fields of the HTTP API.
func TestReplies(t *testing.T) {
	for _, proto := range []string{"2", "3"} {
		bubble(t, func(t *testing.T) {
			p := serve(t, respapi.Config{}, rules...).dial()
			p.do("HELLO " + proto)
			check := func(command, want string) map[string]any {
				t.Helper()
				got := fields(p.do(command))
				shown := map[string]any{}
				for name, value := range got {
					if strings.HasSuffix(name, "_id") || name == "token" {
						value = "…"
					}
					shown[name] = value
				}
				if s := strings.TrimPrefix(fmt.Sprint(shown), "map"); s != want {
					t.Errorf("RESP%s: %s:\n%s, want\n%s", proto, command, s, want)
				}
				return got
			}
			first := check("WEIR.TAKE login:1", "[allowed:1 remaining:1 request_id:…]")
			check("WEIR.TAKE login:1 0", "[allowed:1 remaining:1]")
			check("WEIR.TAKE login:1 3", "[allowed:0 reason:over_burst remaining:1 rule:login]")
			check("WEIR.TAKE login:1 1", "[allowed:1 remaining:0 request_id:…]")
			check("WEIR.TAKE login:1", "[allowed:0 reason:over_rate remaining:0 retry_after_ms:30000 rule:login]")
			check(fmt.Sprintf("WEIR.SETTLE login:1 %s 0", first["request_id"]), "[charged:0 was:1]")
			p.wants(fmt.Sprintf("WEIR.SETTLE login:1 %s 0", first["request_id"]), "NOGRANT no such grant of this key: it was settled or is too old")
			check("WEIR.WAIT login:1", "[allowed:1 place:0 remaining:0 request_id:… waited_ms:0]")
			check("WEIR.WAIT login:1 TIMEOUT 5", "[allowed:0 place:0 reason:too_late remaining:0 retry_after_ms:30000 rule:login waited_ms:0]")
			start := time.Now()
			check("WEIR.WAIT login:1 1 timeout 40s", "[allowed:1 place:0 remaining:0 request_id:… waited_ms:30000]")
			if took := time.Since(start); took != 30*time.Second {
				t.Error(took)
			}
			lease := check("WEIR.LEASE jobs", "[allowed:1 inflight:1 lease_id:… limit:2 token:… ttl_ms:10000 waited_ms:0]")
			check("WEIR.LEASE jobs N 1 TTL 20", "[allowed:1 inflight:2 lease_id:… limit:2 token:… ttl_ms:20000 waited_ms:0]")
			check("WEIR.LEASE jobs", "[allowed:0 reason:over_limit]")
			check("WEIR.LEASE jobs n 3", "[allowed:0 reason:over_limit]")
			check("WEIR.EXPLAIN jobs", "[allowed:1 key:jobs rules:"+map[string]string{
				"2": "[[rule jobs limit 2 inflight 2 waiting_for_lease 0]]", "3": "[map[inflight:2 limit:2 rule:jobs waiting_for_lease:0]]"}[proto]+"]")
			check(fmt.Sprintf("WEIR.RENEW jobs %s TTL 30", lease["lease_id"]), "[allowed:1 inflight:2 lease_id:… limit:2 token:… ttl_ms:30000 waited_ms:0]")
			p.wants(fmt.Sprintf("WEIR.RELEASE jobs %s maybe", lease["lease_id"]), "ERR the outcome must be success, dropped, ignored, timed_out, left, late or gone")
			p.wants(fmt.Sprintf("WEIR.RELEASE jobs %s dropped", lease["lease_id"]), "OK")
			p.wants(fmt.Sprintf("WEIR.RELEASE jobs %s", lease["lease_id"]), "NOLEASE no such lease of this key: it was returned or has expired")
			p.wants("WEIR.LEASE login:1", "NOLEASING no rule with a concurrency matches this key")
			check("WEIR.LEASE jobs N 2 WAIT 1", "[allowed:0 reason:too_late]")
			check("WEIR.LEASE jobs N 2 WAIT 1m", "[allowed:1 inflight:2 lease_id:… limit:2 token:… ttl_ms:10000 waited_ms:19000]")
			x := fields(p.do("WEIR.EXPLAIN login:1"))
			r := fields(x["rules"].([]any)[0])
			if x["allowed"] != 0 || x["retry_after_ms"].(int) < 10_000 || r["rule"] != "login" || r["used"] != 2 || r["retry_after_ms"].(int) < 10_000 || r["denied"] != 3 {
				t.Errorf("%v, %v", x, r)
			}
			top := p.do("WEIR.TOP 1").([]any)
			if k := fields(top[0]); len(top) != 1 || k["key"] != "login:1" || k["allowed"] != 4 || fmt.Sprint(k["rules"]) != "[login]" {
				t.Error(top)
			}
		})
	}
}

// A command that makes no sense decides nothing.
func TestBadArguments(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := serve(t, respapi.Config{MaxKey: 10}, rules...).dial()
		const (
			tokens = "ERR n must be a whole number from 0 to 2147483647"
			units  = "ERR n must be a whole number from 1 to 2147483647"
			when   = "ERR a time must be more than 0: seconds such as 30 or 1.5, or a duration such as 200ms"
		)
		for _, tt := range [][2]string{
			{"WEIR.TAKE a -1", tokens}, {"WEIR.TAKE a x", tokens}, {"WEIR.TAKE a 2147483648", tokens}, {"WEIR.WAIT a x", tokens},
			{"WEIR.WAIT a 1 x 1", "ERR syntax error"}, {"WEIR.WAIT a TIMEOUT", tokens}, {"WEIR.WAIT a 1 TIMEOUT", "ERR syntax error"},
			{"WEIR.WAIT a TIMEOUT 0", when}, {"WEIR.WAIT a TIMEOUT -1", when}, {"WEIR.WAIT a TIMEOUT x", when},
			{"WEIR.WAIT a TIMEOUT nan", when}, {"WEIR.WAIT a TIMEOUT inf", when}, {"WEIR.WAIT a TIMEOUT 1e300", when},
			{"WEIR.WAIT a TIMEOUT 1 TIMEOUT 1", "ERR TIMEOUT is given twice"},
			{"WEIR.LEASE jobs N 0", units}, {"WEIR.LEASE jobs TTL 0", when}, {"WEIR.LEASE jobs TTL 1us", when}, {"WEIR.LEASE jobs WAIT x", when},
			{"WEIR.LEASE jobs x 1", "ERR syntax error"}, {"WEIR.LEASE jobs N", "ERR syntax error"},
			{"WEIR.RENEW jobs id TTL x", when}, {"WEIR.RENEW jobs id x", "ERR syntax error"}, {"WEIR.SETTLE a id x", tokens},
			{"WEIR.TOP x", "ERR n must be a whole number from 0 to 1000"}, {"WEIR.TOP 1001", "ERR n must be a whole number from 0 to 1000"},
			{"WEIR.TAKE 12345678901", "ERR the key is too long"}, {"WEIR.TAKE a\xff", "ERR the key must be UTF-8 without control characters"},
		} {
			p.wants(tt[0], tt[1])
		}
		p.send(encode("WEIR.TAKE", "  "))
		if got := p.read(); got != errorReply("ERR the key is empty") {
			t.Error(got)
		}
		if top := p.do("WEIR.TOP"); len(top.([]any)) != 0 {
			t.Errorf("something was decided: %v", top)
		}
	})
}

// A client needs a token that allows the action and the key, before anything is decided.
// Its token can end while it is connected.
func TestTokens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		parse := func(text string) *token.Set {
			set, err := token.Parse("tokens.yaml", []byte(text))
			testrig.Must(t, err)
			return set
		}
		const shop, other = "the secret of the shop", "the secret of another"
		var guard token.Guard
		guard.Use(parse("tokens: [{name: shop, token: " + shop + ", keys: ['login:*']}, {name: other, token: " + other + ", allow: [debug]}]"))
		s := serve(t, respapi.Config{Identify: guard.Identify}, rules...)
		p := s.dial()
		secret := func(command ...string) any {
			p.send(encode(command...))
			return p.read()
		}
		const (
			noAuth = "NOAUTH Authentication required."
			wrong  = "WRONGPASS invalid username-password pair or user is disabled."
			hello  = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
		)
		for _, command := range []string{"PING", "INFO", "COMMAND", "WEIR.TAKE login:1", "WEIR.TAKE \xff", "CL.THROTTLE", "WEIR.TOP", "NONE"} {
			p.wants(command, noAuth)
		}
		p.wants("HELLO 3", hello)
		p.wants("AUTH x", wrong)
		p.wants("AUTH default x", wrong)
		p.wants("HELLO 3 AUTH default x", wrong)
		if got := secret("AUTH", "anyone", shop); got != "OK" {
			t.Error(got)
		}
		p.wants("AUTH x", wrong) // it stays as it was
		p.wants("PING", "PONG")
		if got := fields(p.do("WEIR.TAKE login:1")); got["allowed"] != 1 {
			t.Error(got)
		}
		p.wants("CL.THROTTLE a 1 1 1", "NOPERM the token does not allow this: not one of the keys of shop")
		p.wants("WEIR.LEASE jobs", "NOPERM the token does not allow this: not one of the keys of shop")
		p.wants("WEIR.EXPLAIN login:1", "NOPERM the token does not allow this: shop may not debug")
		p.wants("WEIR.TOP", "NOPERM the token does not allow this: shop may not debug")
		if got := fields(secret("HELLO", "3", "AUTH", "default", other)); got["proto"] != 3 {
			t.Error(got)
		}
		p.wants("WEIR.TAKE login:1", "NOPERM the token does not allow this: other may not decide")
		if got := p.do("WEIR.TOP 5").([]any); len(got) != 1 || fields(got[0])["allowed"] != 1 || fields(got[0])["denied"] != 0 {
			t.Error(got)
		}
		p.wants("RESET", "RESET")
		p.wants("PING", noAuth)
		secret("AUTH", shop)
		guard.Use(parse("tokens: []"))
		p.wants("WEIR.TAKE login:1", noAuth)
		guard.Use(nil)
		p.wants("PING", "PONG")
	})
}

// A connection ends after its replies when the epoch of the service is another.
func TestEpoch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var epoch atomic.Uint64
		p := serve(t, respapi.Config{Epoch: epoch.Load}).dial()
		p.wants("PING", "PONG")
		p.wants("PING", "PONG")
		synctest.Wait() // until the connection is idle
		epoch.Store(1)
		p.wants("PING", "PONG")
		if got := p.read(); fmt.Sprint(got) != "EOF" {
			t.Error(got)
		}
	})
}

// A farListener has clients at another machine.
type farListener struct{ net.Listener }

func (l farListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return farConn{nc}, err
}

type farConn struct{ net.Conn }

func (farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9} }

// Without tokens, only clients on loopback list the keys of all clients.
func TestTopFromAfar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, respapi.Config{}, rules...)
		far := pipenet.Listen()
		served := make(chan error, 1)
		go func() { served <- s.Serve(farListener{far}) }()
		nc, err := far.Dial(t.Context(), "", "")
		testrig.Must(t, err)
		p := newPeer(nc, t)
		p.wants("WEIR.TOP", "NOPERM keys are listed to clients on loopback, to operators, and to a token that allows debug on all keys")
		if x := fields(p.do("WEIR.EXPLAIN login:1")); x["allowed"] != 1 {
			t.Errorf("%v: want a key explained", x)
		}
		nc.Close()
		far.Close()
		<-served
	})
}

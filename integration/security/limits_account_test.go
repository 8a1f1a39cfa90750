package security

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// limitedUsers are a user of each account of a tenant, with that account.
func limitedUsers() map[string]string {
	return map[string]string{"node@acme": "acme", "alice@acme": "acme-clients", "auditor@acme": "acme-auditors", "plugin-weather@acme": "acme-plugin-weather"}
}

// limitOf is a limit of an account, in its file.
func (d *deployment) limitOf(account, limit string) int {
	d.t.Helper()
	file := filepath.Join(d.dir, "tenants", "acme.conf")
	if plugin, ok := strings.CutPrefix(account, "acme-plugin-"); ok {
		file = filepath.Join(d.dir, "tenants", "acme", "plugin-"+plugin+".conf")
	}
	parsed, err := conf.ParseFile(file)
	runtest.WantError(d.t, "parse", err, nil)
	n, ok := parsed[account].(map[string]any)["limits"].(map[string]any)[limit].(int64)
	if !ok {
		d.t.Fatalf("%s has no limit %s", account, limit)
	}
	return int(n)
}

// settingOf is a number of common.conf, in bytes where it is a size.
func (d *deployment) settingOf(name string) int {
	d.t.Helper()
	parsed, err := conf.ParseFile(filepath.Join(d.dir, "common.conf"))
	runtest.WantError(d.t, "parse", err, nil)
	n, ok := parsed[name].(int64)
	if !ok {
		d.t.Fatalf("common.conf has no %s", name)
	}
	return int(n)
}

// lines is a user's connection without the client library, which keeps limits by itself.
type lines struct {
	t    *testing.T
	conn *tls.Conn
	from *bufio.Reader
}

func (d *deployment) lines(user string) *lines {
	d.t.Helper()
	d.access(user)
	base := d.certs(strings.ReplaceAll(user, "@", "-at-"))
	own, err := tls.LoadX509KeyPair(base+".pem", base+".key")
	runtest.WantError(d.t, "certificate", err, nil)
	authorities := x509.NewCertPool()
	authorities.AddCert(d.clients.cert)
	tcp, err := net.DialTCP("tcp", nil, d.ns.Addr().(*net.TCPAddr))
	runtest.WantError(d.t, "connect", err, nil)
	d.t.Cleanup(func() { _ = tcp.Close() })
	runtest.WantError(d.t, "buffer", tcp.SetReadBuffer(64<<10), nil)
	runtest.WantError(d.t, "deadline", tcp.SetDeadline(time.Now().Add(5*time.Minute)), nil)
	_, err = bufio.NewReader(tcp).ReadString('\n')
	runtest.WantError(d.t, "info", err, nil)
	c := tls.Client(tcp, &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{own}, ServerName: "localhost"})
	l := &lines{d.t, c, bufio.NewReader(c)}
	l.send(`CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"lang":"test","version":"1"}` + "\r\nPING\r\n")
	return l
}

// send ignores errors: the server may have closed the connection.
func (l *lines) send(text string) { _, _ = l.conn.Write([]byte(text)) }

// await reads up to a line that has a text, or to the end of the connection.
func (l *lines) await(text string) bool {
	for {
		line, err := l.from.ReadString('\n')
		if strings.Contains(line, text) {
			return true
		}
		if err != nil {
			return false
		}
	}
}

// TestLimitsOfEveryAccount reaches each limit of each account of a tenant, with numbers that are one too large. The server refuses it,
// and its log names the account and the user.
func TestLimitsOfEveryAccount(t *testing.T) {
	t.Parallel()
	d := install(t)
	run(t, d.dir, "add-plugin.sh", "acme", "weather")
	d.boot()
	log := &serverLog{}
	d.ns.SetLogger(log, false, false)
	for user, account := range limitedUsers() {
		inbox, label := inboxOf(user), account+"/user:"+user
		refused := func(what, request, answer, logged string) {
			t.Helper()
			c := d.lines(user)
			runtest.Equal(t, user+" is connected", c.await("PONG"), true)
			c.send(request)
			if !c.await(answer) {
				t.Errorf("%s, %s: got no %q", user, what, answer)
			}
			bustest.Eventually(t, user+": "+what+" in the log", func() bool { return log.has(logged, label) })
			_ = c.conn.Close()
		}
		var subs strings.Builder
		for i := range d.limitOf(account, "max_subscriptions") + 1 {
			fmt.Fprintf(&subs, "SUB %s.%d %d\r\n", inbox, i, i)
		}
		refused("subscriptions", subs.String(), "maximum subscriptions exceeded", "maximum subscriptions exceeded")
		refused("length of a subject", "SUB "+inbox+"."+strings.Repeat("x", d.settingOf("max_control_line"))+" 1\r\n", "maximum control line exceeded", "maximum control line exceeded")
		refused("words of a subject", "SUB "+inbox+strings.Repeat(".x", d.settingOf("max_subscription_tokens"))+" 1\r\n", "too many tokens", "Too Many Tokens")
		refused("bytes of a message", fmt.Sprintf("PUB x %d\r\n", d.limitOf(account, "max_payload")+1), "Maximum Payload Violation", "maximum payload exceeded")
	}
}

// TestConnectionsOfEveryAccount opens as many connections as an account of a tenant may have, and one more: the server refuses that one. The
// server's list of closed connections names the account and the user; its log has the address only. Users of other accounts connect.
func TestConnectionsOfEveryAccount(t *testing.T) {
	t.Parallel()
	d := install(t)
	run(t, d.dir, "add-plugin.sh", "acme", "weather")
	d.boot()
	log := &serverLog{}
	d.ns.SetLogger(log, false, false)
	for user, account := range limitedUsers() {
		for n := range d.limitOf(account, "max_connections") {
			if !d.lines(user).await("PONG") {
				t.Fatalf("%s: connection %d is refused", user, n+1)
			}
		}
		if !d.lines(user).await("maximum account active connections exceeded") {
			t.Errorf("%s: got no refusal of one connection more", user)
		}
		bustest.Eventually(t, user+" in the list of closed connections", func() bool {
			closed, err := d.ns.Connz(&server.ConnzOptions{State: server.ConnClosed, Username: true})
			runtest.WantError(t, "connections", err, nil)
			for _, c := range closed.Conns {
				if c.Account == account && c.AuthorizedUser == user && c.Reason == server.MaxAccountConnectionsExceeded.String() {
					return true
				}
			}
			return false
		})
	}
	bustest.Eventually(t, "a line in the log", func() bool { return log.has("maximum account active connections exceeded") })
	runtest.Equal(t, "another tenant connects", d.lines("host@globex").await("PONG"), true)
}

// TestSlowReadersOfEveryAccount has a user of each account that receives messages read nothing: the server closes its connection above the limit
// of bytes that wait, and its log names the account and the user.
func TestSlowReadersOfEveryAccount(t *testing.T) {
	t.Parallel()
	d := install(t)
	run(t, d.dir, "add-plugin.sh", "acme", "weather")
	d.boot()
	log := &serverLog{}
	d.ns.SetLogger(log, false, false)
	sender := d.conn("node@acme")
	for user, subjects := range map[string][2]string{
		"node@acme": {"lash.alive", "lash.alive"}, "alice@acme": {"lash.delta.*.*", "lash.delta.s.t"}, "plugin-weather@acme": {"lash.plugin.weather.*.*", "lash.plugin.weather.i.call"},
	} {
		c := d.lines(user)
		runtest.Equal(t, "connected", c.await("PONG"), true)
		c.send("SUB " + subjects[0] + " 1\r\nPING\r\n")
		runtest.Equal(t, "subscribed", c.await("PONG"), true)
		message := make([]byte, 512<<10)
		bustest.Eventually(t, user+" in the log", func() bool {
			runtest.WantError(t, "publish", sender.Publish(subjects[1], message), nil)
			runtest.WantError(t, "flush", sender.Flush(), nil)
			return log.has("Slow Consumer Detected: MaxPending of "+strconv.Itoa(d.settingOf("max_pending")), limitedUsers()[user]+"/user:"+user)
		})
	}
}

// What a server needs for a subscription of the largest length and number of words, as measured: of a subject of the account, and of one that
// it imports.
const (
	bytesOfSubscription = 5000
	bytesOfImported     = 7600
)

// TestMemoryOfServer adds what a server with three tenants and eight plugins needs where every limit is reached, with the figures of
// OPERATING.md: it fits into what the unit and the compose file give it.
func TestMemoryOfServer(t *testing.T) {
	t.Parallel()
	d := install(t)
	need := 1 << 30 // max_memory_store
	connections, subscriptions := 4, 0
	each := map[string]int{"acme": bytesOfSubscription, "acme-clients": bytesOfImported, "acme-auditors": bytesOfSubscription, "acme-plugin-weather": bytesOfImported}
	run(t, d.dir, "add-plugin.sh", "acme", "weather")
	for account, tenants := range map[string]int{"acme": 3, "acme-clients": 3, "acme-auditors": 3, "acme-plugin-weather": 8} {
		n := d.limitOf(account, "max_connections")
		connections += tenants * n
		subs := tenants * n * d.limitOf(account, "max_subscriptions")
		subscriptions += subs
		need += subs * each[account]
	}
	if most := d.settingOf("max_connections"); connections > most {
		t.Errorf("connections: the accounts have %d, the server takes %d", connections, most)
	}
	need += d.settingOf("max_connections") * d.settingOf("max_pending")
	need += 3 * 1300 * (100<<10 + 256<<10) // hot sessions
	read := func(file, pattern string) int {
		data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "nats", file))
		runtest.WantError(t, "read", err, nil)
		found := regexp.MustCompile(pattern).FindSubmatch(data)
		if found == nil {
			t.Fatalf("%s: it has no %s", file, pattern)
		}
		n, err := strconv.Atoi(string(found[1]))
		runtest.WantError(t, "number", err, nil)
		return n
	}
	for file, patterns := range map[string][2]string{
		"systemd/nats-server@.service": {`\nMemoryMax=(\d+)G\n`, `\nEnvironment=GOMEMLIMIT=(\d+)GiB\n`},
		"compose.yaml":                 {`\n  nats:\n(?:    .*\n)*?    mem_limit: (\d+)g\n`, `\n  nats:\n(?:    .*\n)*?    environment: \{GOMEMLIMIT: (\d+)GiB\}\n`},
		"OPERATING.md":                 {`2 cores and (\d+) GB for each server`, `of which (\d+) GiB are for the heap`},
	} {
		most, heap := read(file, patterns[0]), read(file, patterns[1])
		if need > heap<<30 || heap >= most {
			t.Errorf("%s: got %d GiB of %d, want at least %d MiB, and less than all", file, heap, most, need>>20)
		}
	}
	t.Logf("%d connections, %d subscriptions, %d MiB in all", connections, subscriptions, need>>20)
}

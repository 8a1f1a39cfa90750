package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestClientBehindProxies has headers as proxies and hostile clients send them. Only what trusted proxies wrote counts.
func TestClientBehindProxies(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}
	for name, c := range map[string]struct {
		peer, header string
		values       []string
		want         string
	}{
		"no proxy":              {"192.0.2.1:9", XForwardedFor, []string{"198.51.100.1"}, "192.0.2.1:9"},
		"no address":            {"@", XForwardedFor, []string{"198.51.100.1"}, "@"},
		"no header":             {"10.0.0.1:9", XForwardedFor, nil, "10.0.0.1:0"},
		"one":                   {"10.0.0.1:9", XForwardedFor, []string{"198.51.100.1"}, "198.51.100.1:0"},
		"mapped peer":           {"[::ffff:10.0.0.1]:9", XForwardedFor, []string{"198.51.100.1"}, "198.51.100.1:0"},
		"mapped client":         {"10.0.0.1:9", XForwardedFor, []string{"::ffff:198.51.100.1"}, "198.51.100.1:0"},
		"written by the client": {"10.0.0.1:9", XForwardedFor, []string{"203.0.113.7, 198.51.100.1"}, "198.51.100.1:0"},
		"two headers":           {"10.0.0.1:9", XForwardedFor, []string{"203.0.113.7", "198.51.100.1"}, "198.51.100.1:0"},
		"two proxies":           {"10.0.0.1:9", XForwardedFor, []string{"203.0.113.7, 198.51.100.1, 10.0.0.2"}, "198.51.100.1:0"},
		"claims to be a proxy":  {"10.0.0.1:9", XForwardedFor, []string{"10.9.9.9, 198.51.100.1"}, "198.51.100.1:0"},
		"all are proxies":       {"10.0.0.1:9", XForwardedFor, []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3:0"},
		"port":                  {"10.0.0.1:9", XForwardedFor, []string{"198.51.100.1:4711"}, "198.51.100.1:0"},
		"IPv6":                  {"[2001:db8:1::1]:9", XForwardedFor, []string{"[2001:db8:2::1]:4711"}, "[2001:db8:2::1]:0"},
		"zone":                  {"10.0.0.1:9", XForwardedFor, []string{"fe80::1%eth0"}, "[fe80::1]:0"},
		"no address in it":      {"10.0.0.1:9", XForwardedFor, []string{"203.0.113.7, unknown"}, "10.0.0.1:0"},
		"empty entries":         {"10.0.0.1:9", XForwardedFor, []string{"203.0.113.7,,"}, "10.0.0.1:0"},
		"text behind a proxy":   {"10.0.0.1:9", XForwardedFor, []string{"<script>, 10.0.0.2"}, "10.0.0.2:0"},
		"the other header":      {"10.0.0.1:9", "X", []string{"198.51.100.1"}, "10.0.0.1:0"},
		"forwarded":             {"10.0.0.1:9", Forwarded, []string{`for=203.0.113.7, proto=https;For="198.51.100.1:4711";by=10.0.0.1`}, "198.51.100.1:0"},
		"forwarded IPv6":        {"10.0.0.1:9", Forwarded, []string{`for="[2001:db8:2::1]:4711"`}, "[2001:db8:2::1]:0"},
		"forwarded hidden":      {"10.0.0.1:9", Forwarded, []string{`for=203.0.113.7, for=_hidden`}, "10.0.0.1:0"},
		"forwarded without for": {"10.0.0.1:9", Forwarded, []string{`for=203.0.113.7, proto=https`}, "10.0.0.1:0"},
		"host of the client":    {"10.0.0.1:9", Forwarded, []string{`for=198.51.100.1;host="a;for=203.0.113.7"`}, "198.51.100.1:0"},
		"host with a comma":     {"10.0.0.1:9", Forwarded, []string{`for=198.51.100.1;host="a,for=203.0.113.7"`}, "198.51.100.1:0"},
		"host with a quote":     {"10.0.0.1:9", Forwarded, []string{`for=198.51.100.1;host="a\";for=203.0.113.7;x=\""`}, "198.51.100.1:0"},
		"open quote":            {"10.0.0.1:9", Forwarded, []string{`for="203.0.113.7, for=198.51.100.1`}, "10.0.0.1:0"},
		"open quote before":     {"10.0.0.1:9", Forwarded, []string{`for="203.0.113.7`, `for=198.51.100.1`}, "198.51.100.1:0"},
		"comma in quotes":       {"10.0.0.1:9", Forwarded, []string{`for="203.0.113.7,198.51.100.1"`}, "10.0.0.1:0"},
	} {
		header := c.header
		if header == "X" {
			header = XForwardedFor
		}
		s := &Server{cfg: Config{Proxies: trusted, ProxyHeader: header}}
		h := make(http.Header)
		for _, v := range c.values {
			h.Add(map[bool]string{true: "X-Real-Ip", false: c.header}[c.header == "X"], v)
		}
		if got := s.clientOf(&http.Request{RemoteAddr: c.peer, Header: h}); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// TestHostOfClientNamesNoAddress: a proxy repeats the host that a client wrote, inside quotes. Whatever it is, the address is the one
// that the proxy saw.
func TestHostOfClientNamesNoAddress(t *testing.T) {
	t.Parallel()
	s := &Server{cfg: Config{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, ProxyHeader: Forwarded}}
	rapid.Check(t, func(t *rapid.T) {
		host := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{`"`, `\`, ",", ";", "for=203.0.113.7", "FOR=", "a", " ", "="}), 0, 12).Draw(t, "host"), "")
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(host) + `"`
		before := rapid.SampledFrom([]string{"", `for=203.0.113.7, `, `for=10.0.0.2;host="x,y", `}).Draw(t, "before")
		element := rapid.SampledFrom([]string{"for=198.51.100.1;host=" + quoted, "host=" + quoted + ";for=198.51.100.1"}).Draw(t, "element")
		r := &http.Request{RemoteAddr: "10.0.0.1:9", Header: http.Header{Forwarded: {before + element}}}
		if got := s.clientOf(r); got != "198.51.100.1:0" {
			t.Errorf("%s: got %s", r.Header, got)
		}
	})
}

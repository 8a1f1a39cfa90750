package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Headers that say which client a proxy forwards, see [Config.ProxyHeader].
const (
	XForwardedFor = "X-Forwarded-For"
	Forwarded     = "Forwarded"
)

// clientOf is the client's address of a request, for limits and the access log: that of the connection, or the right-most one
// without trust that a trusted proxy forwards. What stands left of that one is the client's own text. An entry that is no address ends
// the search at the proxy that wrote it.
func (s *Server) clientOf(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !trusts(s.cfg.Proxies, peer.Addr()) {
		return r.RemoteAddr
	}
	client := netip.AddrPortFrom(peer.Addr(), 0)
	for _, entry := range slices.Backward(s.forwarded(r.Header)) {
		at, ok := forwardedAddress(entry)
		if !ok {
			break
		}
		client = netip.AddrPortFrom(at, 0)
		if !trusts(s.cfg.Proxies, at) {
			break
		}
	}
	return client.String()
}

func trusts(proxies []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a.Unmap().WithZone("")) })
}

// forwarded lists the entries of the header of proxies, those of the client first.
func (s *Server) forwarded(h http.Header) (list []string) {
	for _, line := range h.Values(s.cfg.ProxyHeader) {
		if s.cfg.ProxyHeader != Forwarded {
			list = append(list, strings.Split(line, ",")...)
			continue
		}
		elements, ok := splitQuoted(line, ',')
		if !ok {
			elements = []string{""} // what is inside quotes is not known
		}
		for _, element := range elements {
			list = append(list, forOf(element))
		}
	}
	return list
}

// forOf is the client that an element of Forwarded names, empty without one.
func forOf(element string) (client string) {
	pairs, _ := splitQuoted(element, ';')
	for _, pair := range pairs {
		if name, value, ok := strings.Cut(pair, "="); ok && strings.EqualFold(strings.TrimSpace(name), "for") {
			client = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return client
}

// splitQuoted splits a text at a separator that is outside of quotes. ok is false where the last quote is open. Proxies repeat what
// clients wrote, such as the host, inside quotes.
func splitQuoted(text string, at byte) (list []string, ok bool) {
	begin, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == at && !quoted:
			list, begin = append(list, text[begin:i]), i+1
		}
	}
	return append(list, text[begin:]), !quoted
}

// forwardedAddress is the address in an entry, which may have a port.
func forwardedAddress(entry string) (netip.Addr, bool) {
	entry = strings.TrimSpace(entry)
	if host, _, err := net.SplitHostPort(entry); err == nil {
		entry = host
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]"))
	return a.Unmap().WithZone(""), err == nil
}

package webpage

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// serve asks a handler of the page for a path.
func serve(t *testing.T, method, at string, header ...string) *http.Response {
	t.Helper()
	h, err := New(Settings{ReadOnly: true, Source: true})
	runtest.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), method, at, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestSize limits the files of the page, as browsers receive them, to 300 KB.
func TestSize(t *testing.T) {
	t.Parallel()
	h, err := New(Settings{})
	runtest.NoError(t, err)
	sum := 0
	for at, f := range h.(handler) {
		if at != "/" { // it is index.html again
			sum += len(f.packed)
		}
	}
	t.Logf("%d bytes compressed, in %d files", sum, len(h.(handler))-1)
	if sum > 300_000 || sum < 10_000 {
		t.Errorf("files: got %d bytes compressed, want at most 300000, and all of them", sum)
	}
}

// TestPolicy checks the headers of every answer.
func TestPolicy(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"/", "/page/app.js", "/page/app.css", settingsPath, "/page/nothing"} {
		got := serve(t, http.MethodGet, at) //nolint:bodyclose // a recorder's
		policy := got.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "img-src 'self' data:;", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'", "trusted-types lash"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: got the policy %q, want %q in it", at, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || got.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got the policy %q and %q, want neither an exception nor a guess of types", at, policy, got.Header.Get("X-Content-Type-Options"))
		}
	}
}

// TestFiles checks that no file makes HTML or code of text, or names another server. The name of the SVG language is no
// address that a browser asks.
func TestFiles(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|createContextualFragment|srcdoc|localStorage|document\.cookie|https?://|javascript:|\sstyle="|<script>`)
	h, err := New(Settings{})
	runtest.NoError(t, err)
	for at, f := range h.(handler) {
		text := strings.ReplaceAll(string(f.plain), "http://www.w3.org/2000/svg", "")
		runtest.Equal(t, at, forbidden.FindString(text), "")
		if f.mediaType == "" {
			t.Errorf("%s: got no media type", at)
		}
	}
}

// TestLookupsAreInMaps finds every access by a computed name in the page's scripts. A text from outside may be a word of the
// language, such as "constructor", that each object has: only places in lists, and names of the page's own, may be looked up so;
// all else is in a Map or a Set.
func TestLookupsAreInMaps(t *testing.T) {
	t.Parallel()
	var (
		texts   = regexp.MustCompile(`(^|\s)//.*|"(?:[^"\\]|\\.)*"`)
		lookups = regexp.MustCompile(`[\w$.#?]*[\w$)\]](?:\?\.)?\[((?:[^\[\]]|\[[^\[\]]*\])+)\]`)
		// place is an index of a list: a number, a variable that counts, or what only numbers have.
		place   = regexp.MustCompile(`^(\d+|[ijn]|begin|end[AB]|frame|gone|index|mid|next|now|this\.(seen|laid|frame)|n\.(frame|parent\.index))(\+\+| [+-] 1)?$|^Number\(|^Math\.|^\(?\w+\.(indexOf|findIndex)\(|^head\.seq - 1 - from$`)
		pattern = regexp.MustCompile(`^([.\\]|$)`) // a class of a regular expression, or a text in quotes
		own     = map[string]string{
			"u[k]": "a name of USAGE or NAMES", "u?.[k]": "a name of NAMES", "sum[k]": "a name of USAGE or NAMES", "was[k]": "a name of USAGE", "entry.usage[k]": "a name of USAGE",
			"other[k]": "a name of NAMES", "row[k]": "a name of NAMES", "r[name]": "a name of NAMES", "node[name]": "one of the names before it", "ICONS[name]": "a name of a button",
			"this[go]": "a method that a fact names", "this[it.type]": "a type of a row",
		}
	)
	h, err := New(Settings{})
	runtest.NoError(t, err)
	found := make(map[string]bool)
	for at, f := range h.(handler) {
		if !strings.HasSuffix(at, ".js") {
			continue
		}
		for i, line := range strings.Split(string(f.plain), "\n") {
			for _, m := range lookups.FindAllStringSubmatch(texts.ReplaceAllString(line, ""), -1) {
				found[m[0]] = true
				if own[m[0]] == "" && !place.MatchString(m[1]) && !pattern.MatchString(m[1]) {
					t.Errorf("%s:%d: got %s, want a Map or a Set: an object has more names than were put into it", at, i+1, m[0])
				}
			}
		}
	}
	for name := range own {
		if !found[name] {
			t.Errorf("%s: got none, want it off the list", name)
		}
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	first := serve(t, http.MethodGet, "/") //nolint:bodyclose // a recorder's
	tag := first.Header.Get("ETag")
	for name, c := range map[string]struct {
		method, at string
		header     []string
		status     int
		encoding   string
		text       string
	}{
		"index":    {http.MethodGet, "/", nil, 200, "", "<title>lash</title>"},
		"settings": {http.MethodGet, settingsPath, nil, 200, "", `{"read_only":true,"prices":false,"source":true}`},
		"packed":   {http.MethodGet, "/page/app.js", []string{"Accept-Encoding", "gzip, br"}, 200, "gzip", ""},
		"same":     {http.MethodGet, "/", []string{"If-None-Match", tag}, 304, "", ""},
		"head":     {http.MethodHead, "/", nil, 200, "", ""},
		"unknown":  {http.MethodGet, "/page/../webpage.go", nil, 404, "", "no such file"},
		"folder":   {http.MethodGet, "/page/", nil, 404, "", "no such file"},
		"changed":  {http.MethodPost, "/", nil, 405, "", "only read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := serve(t, c.method, c.at, c.header...)
			defer func() { _ = got.Body.Close() }()
			body, err := io.ReadAll(got.Body)
			if err != nil || got.StatusCode != c.status || got.Header.Get("Content-Encoding") != c.encoding || !strings.Contains(string(body), c.text) {
				t.Errorf("got %d, encoding %q, %.80q, %v, want %d, %q, %q", got.StatusCode, got.Header.Get("Content-Encoding"), body, err, c.status, c.encoding, c.text)
			}
		})
	}
}

package security

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/lash-go/lash/internal/runtest"
)

// pageTargets are the files of the page, its settings, and the document of the API, which are all served without a token.
func (s *siege) pageTargets() (list []target) {
	s.T.Helper()
	s.pages = map[string][]byte{"/page/settings.json": nil, "/v1/openapi.json": nil, "/v1/prices": nil, "/v1/source": nil}
	root := filepath.Join("..", "..", "session", "webpage", "files")
	runtest.WantError(s.T, "files of the page", filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		s.pages["/page/"+filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))] = data
		return err
	}), nil)
	s.pages["/"] = s.pages["/page/index.html"]
	for path := range s.pages {
		list = append(list, target{"page", path, func(a *attacker) { a.overPage(path) }})
	}
	return list
}

// pagePath is the path of a file, or one that leads out of the page.
func (a *attacker) pagePath(path string) string {
	if a.IntN(2) == 0 {
		return path
	}
	a.change = "path"
	return pick(a.forger, path+"/", path+"%00", "/page/..%2f..%2fetc%2fpasswd", "/page/%2e%2e/%2e%2e/go.mod", "/page//index.html", "/PAGE/index.html", "/page/%ff", "//page/index.html",
		"/page/"+strings.Repeat("x", a.IntN(20_000)), "/page", path+"?"+strings.Repeat("q", a.IntN(9000)), path+"%20", "/page/files/index.html", "/page/index.html;x", "/v1/../page/index.html", "/%70age/index.html")
}

// overPage reads a file of the page. What is served is the file, and nothing else.
func (a *attacker) overPage(path string) {
	method, at := http.MethodGet, a.pagePath(path)
	if a.IntN(4) == 0 {
		a.change, method = "method", pick(a.forger, "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
	}
	r, err := http.NewRequestWithContext(a.Ctx, method, a.http.URL+at, nil)
	if err != nil {
		a.wrong("request of %s: %v", at, err)
		return
	}
	if a.IntN(4) == 0 {
		a.change = "header"
		r.Header.Set(pick(a.forger, "Range", "If-None-Match", "Accept-Encoding", "Origin", "X-Forwarded-For", "Authorization", "If-Range", "Cookie", "Content-Type"),
			pick(a.forger, "bytes=0-1,3-4,-9", `"x", W/"y"`, "gzip, identity;q=0", "https://other", "*", "Bearer x", strings.Repeat("h", a.IntN(20_000))))
	}
	got, err := a.http.Client.Do(r)
	if err != nil {
		a.wrong("page %s %s: %v", method, clipped(at), err)
		return
	}
	defer func() { _ = got.Body.Close() }()
	data, err := io.ReadAll(got.Body)
	if err != nil && got.StatusCode == http.StatusRequestHeaderFieldsTooLarge { // net/http closes with headers unread, which resets the connection
		a.outcome("page", got.Status)
		return
	}
	if err != nil || got.StatusCode >= 500 {
		a.wrong("page %s %s: got %d %s, %v", method, clipped(at), got.StatusCode, clipped(string(data)), err)
	}
	file, known := a.pages[strings.TrimSuffix(at, "?"+r.URL.RawQuery)]
	switch {
	case got.StatusCode < 300:
		plain := method == http.MethodGet && got.Header.Get("Content-Encoding") == "" && file != nil
		if !known || plain && !bytes.Equal(data, file) {
			a.wrong("page %s %s: got %d bytes, want the file of the page", method, clipped(at), len(data))
		}
		if strings.HasPrefix(at, "/page/") && got.Header.Get("Content-Security-Policy") == "" {
			a.wrong("page %s: got no policy", clipped(at))
		}
		a.outcome("page", "ok")
		return
	case got.StatusCode == http.StatusNotModified:
	case method != http.MethodHead && len(data) == 0:
		a.wrong("page %s %s: got %d without a reason", method, clipped(at), got.StatusCode)
	}
	a.outcome("page", got.Status)
}

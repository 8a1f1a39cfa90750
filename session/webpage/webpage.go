package webpage

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed files
var files embed.FS

// Settings tell the page what its server is. They are sent to browsers before a sign-in, so they have no name or path.
type Settings struct {
	ReadOnly bool `json:"read_only"` // the page offers nothing that changes a session
	Prices   bool `json:"prices"`    // the server has prices at /v1/prices, see [httpapi.Config]
	Source   bool `json:"source"`    // the server has the name of its source at /v1/source, likewise
}

// policy is the content security policy of all files.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types lash"

// file is one file of the page.
type file struct {
	mediaType, tag string
	plain, packed  []byte // packed with gzip
}

// handler serves the files by their path.
type handler map[string]*file

// settingsPath is the path of the settings.
const settingsPath = "/page/settings.json"

// New returns the handler of the page: of the path / and of the paths below /page/.
func New(s Settings) (http.Handler, error) {
	list := make(handler)
	err := fs.WalkDir(files, "files", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		return list.add("/page/"+strings.TrimPrefix(name, "files/"), data)
	})
	if err != nil {
		return nil, fmt.Errorf("files of the page: %w", err)
	}
	data, err := json.Marshal(s)
	if err == nil {
		err = list.add(settingsPath, data)
	}
	if err != nil {
		return nil, fmt.Errorf("settings of the page: %w", err)
	}
	list["/"] = list["/page/index.html"]
	return list, nil
}

func (h handler) add(at string, data []byte) error {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	h[at] = &file{mediaType: mediaTypes[path.Ext(at)], tag: `"` + hex.EncodeToString(sum[:16]) + `"`, plain: data, packed: packed.Bytes()}
	return nil
}

// mediaTypes are the types by extension. The system's table may have others.
//
//nolint:gochecknoglobals // read-only
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".json": "application/json", ".txt": "text/plain; charset=utf-8",
}

// ServeHTTP implements [http.Handler].
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()", "Cache-Control": "no-cache", "Vary": "Accept-Encoding",
	} {
		header.Set(name, value)
	}
	f := h[r.URL.EscapedPath()]
	switch {
	case f == nil:
		http.Error(w, "no such file of the page", http.StatusNotFound)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "the page is only read", http.StatusMethodNotAllowed)
		return
	}
	header.Set("ETag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	header.Set("Content-Type", f.mediaType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the client may be gone
	}
}

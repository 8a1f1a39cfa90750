package page

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// makeCertificates makes an authority, a certificate for a server of this machine, and one for the caller carol, and puts that into
// the database of certificates of a home folder.
const makeCertificates = `set -e
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority
make() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -out $1.csr -subj /CN=$2
	printf "$3" > $1.ext
	openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $1.ext -out $1.pem
}
make server localhost 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n'
make client carol 'extendedKeyUsage=clientAuth\n'
openssl pkcs12 -export -inkey client.key -in client.pem -name carol -out client.p12 -passout pass:x
mkdir -p home/.pki/nssdb
certutil -N -d sql:home/.pki/nssdb --empty-password
pk12util -i client.p12 -d sql:home/.pki/nssdb -W x -K ""
certutil -A -n authority -t CT,C,C -i ca.pem -d sql:home/.pki/nssdb`

// browserWithPolicy is a program that starts a browser with a home folder and a policy of its own. Browsers read policies from one
// place of the machine, so it gets that place in a file system of its own.
const browserWithPolicy = `#!/bin/sh
cd "$(dirname "$0")"
exec unshare --map-root-user --mount sh -c 'mount --bind policy /etc/chromium && HOME="$PWD/home" exec "$0" "$@"' BROWSER "$@"
`

// TestClientCertificate signs in with the certificate that the browser has: the page asks for no token, and the history has the name.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	path := runtest.Chromium(t)
	runtest.Tools(t, map[string]string{"certutil": "libnss3-tools", "pk12util": "libnss3-tools", "unshare": "util-linux"}, "openssl", "certutil", "pk12util", "unshare")
	dir, address := t.TempDir(), freeAddress(t)
	write := func(name, text string, mode os.FileMode) string {
		runtest.WantError(t, name, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), nil)
		runtest.WantError(t, name, os.WriteFile(filepath.Join(dir, name), []byte(text), mode), nil)
		return filepath.Join(dir, name)
	}
	write("policy/policies/managed/certificate.json", `{"AutoSelectCertificateForUrls": ["{\"pattern\":\"https://`+address+`\",\"filter\":{}}"]}`, 0o600)
	browser := write("browser", strings.Replace(browserWithPolicy, "BROWSER", path, 1), 0o700)
	if out, err := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--mount", "mount", "--bind", filepath.Join(dir, "policy"), "/etc/chromium").CombinedOutput(); err != nil { //nolint:gosec // a folder of this test
		t.Fatalf("a browser gets no policy here: %v: %s", err, out)
	}
	setup := exec.CommandContext(t.Context(), "sh", "-c", makeCertificates)
	setup.Dir = dir
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("certificates: got %v: %s", err, out)
	}
	model := llmtest.Endpoint(t, func(*http.Request, llm.Request) llmtest.Reply { return llmtest.Text("Good day.") })
	n := &program{t: t, path: harness.BuildCommand(t, "lash-node"), address: address, env: []string{"OPENAI_BASE_URL=" + model}}
	n.args = []string{
		"serve", "--store", filepath.Join(dir, "store"), "--listen", "127.0.0.1:0", "--model", "m", "--http", address, "--http-tokens", write("tokens", "carol write cn:carol\n", 0o600),
		"--set", "http-tls-cert=" + filepath.Join(dir, "server.pem"), "--set", "http-tls-key=" + filepath.Join(dir, "server.key"), "--set", "http-client-ca=" + filepath.Join(dir, "ca.pem"),
	}
	n.start()
	p := browseIn(harness.Context(t), t, "https://"+address, desktop, chromedp.ExecPath(browser), chromedp.NoSandbox)
	p.run(chromedp.Navigate(p.url + "/"))
	p.await("the list without a sign-in", "document.querySelector('.side') && !document.querySelector('#token')")
	p.click(".side-head button")
	p.write(".talk textarea", "hello\r")
	p.awaitText(".message.assistant", "Good day.")
	p.awaitText(".message.user header", "carol")
	runtest.Equal(t, "button to sign out", eval[int](p, "[...document.querySelectorAll('.top button')].filter((b) => b.innerText === 'Sign out').length"), 0)
}

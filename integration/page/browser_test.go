package page

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/webpage"
)

// tab is a page in a browser of its own. It fails its test for errors on the page, and for requests to another server.
type tab struct {
	*testing.T
	ctx context.Context
	url string // of the server, without a slash at its end

	mu       sync.Mutex
	faults   []string
	expected []string // texts of faults that the test causes
	visited  []string // URLs of all requests
}

// size is a viewport in pixels.
type size struct {
	name          string
	width, height int64
}

var desktop = size{"desktop", 1360, 860}

// browse opens a tab, which its test closes.
func browse(t *testing.T, url string, in size) *tab {
	t.Helper()
	return browseIn(harness.Context(t), t, url, in)
}

// browseIn is browse until the end of ctx, with more switches of the browser.
func browseIn(ctx context.Context, t *testing.T, url string, in size, more ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(runtest.Chromium(t)), chromedp.Env("HOME="+t.TempDir()), chromedp.WindowSize(int(in.width), int(in.height)), chromedp.Flag("hide-scrollbars", false))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(ctx, append(options, more...)...)
	t.Cleanup(stop)
	b := &tab{T: t, url: url}
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithListener(b.hear))
	b.ctx = ctx
	t.Cleanup(func() {
		b.check()
		closeTab()
	})
	b.run(command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}),
		command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: in.width, Height: in.height, DeviceScaleFactor: 1}))
	return b
}

// hear collects what goes wrong on the page, and where it sends requests.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			b.faults = append(b.faults, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		b.visited = append(b.visited, e.Request.URL)
	}
}

// expect allows faults that contain a text.
func (b *tab) expect(text ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, text...)
}

func (b *tab) check() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
faults:
	for _, fault := range b.faults {
		for _, text := range b.expected {
			if strings.Contains(fault, text) {
				continue faults
			}
		}
		b.Errorf("on the page: got %s, want no fault", fault)
	}
	for _, url := range b.visited {
		if !strings.HasPrefix(url, b.url+"/") && !strings.HasPrefix(url, "data:") {
			b.Errorf("request: got %s, want the page's own server only", url)
		}
		if strings.Contains(url, harness.TokenSecret) || strings.Contains(url, "token") {
			b.Errorf("request: got %s, want no token in a URL", url)
		}
	}
}

// command is an action that sends a command without a result.
func command[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, c, params)
		return err
	})
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// eval evaluates an expression of JavaScript in the page, through the browser's own debugger.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// await waits until an expression is true.
func (b *tab) await(what, expression string) {
	b.Helper()
	ok, err := false, error(nil)
	defer func() {
		if !ok {
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
			b.Logf("%s: it did not come (%v); the page shows: %.3000s", what, err, text)
		}
	}()
	bustest.Eventually(b, what, func() bool {
		ok, err = chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		ok = ok && err == nil
		return ok
	})
}

// awaitText waits until an element shows a text.
func (b *tab) awaitText(selector, text string) {
	b.Helper()
	b.await(fmt.Sprintf("%q in %s", text, selector), fmt.Sprintf("[...document.querySelectorAll(%s)].some((e) => e.innerText.includes(%s))", quoted(selector), quoted(text)))
}

func (b *tab) click(selector string) {
	b.Helper()
	b.await(selector, fmt.Sprintf("document.querySelector(%s)", quoted(selector)))
	eval[chromedp.Void](b, fmt.Sprintf("document.querySelector(%s).click()", quoted(selector)))
}

// write types a text into a field, and then keys.
func (b *tab) write(selector, text string) {
	b.Helper()
	b.run(chromedp.Focus(chromedp.CSS(selector)), chromedp.SendKeys(chromedp.CSS(selector), text))
}

// press presses a key, with the focus where it is.
func (b *tab) press(keys string) {
	b.Helper()
	b.run(chromedp.KeyEvent(keys))
}

// open loads a path, and signs in with the token of a caller.
func (b *tab) open(path, caller string) {
	b.Helper()
	b.openAs(path, caller+harness.TokenSecret)
}

// openAs signs in with a token.
func (b *tab) openAs(path, token string) {
	b.Helper()
	b.expect("401 (Unauthorized)") // the page first asks whether a certificate is enough
	b.run(chromedp.Navigate(b.url + "/" + path))
	b.await("the sign-in", "document.querySelector('#token')")
	b.write("#token", token+"\r")
	b.await("the list", "document.querySelector('.side')")
}

func quoted(text string) string {
	data, _ := json.Marshal(text) // a string can be encoded
	return string(data)
}

// serve serves the system's host with the page.
func serve(t *testing.T, b *harness.System, cfg httpapi.Config) *harness.HTTP {
	t.Helper()
	runtest.Chromium(t)
	var err error
	cfg.Page, err = webpage.New(webpage.Settings{Prices: cfg.Prices != nil})
	runtest.WantError(t, "page", err, nil)
	return b.ServeHTTP(cfg)
}

// navigate shows another part of the page, as a link does.
func navigate(b *tab, hash string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void]("location.hash = " + quoted(hash))
}

// focusOn moves the focus to an element.
func focusOn(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%s).focus()", quoted(selector)))
}

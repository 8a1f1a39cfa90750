// Package webpage serves the web page that shows sessions and talks to them. It has the page's files and nothing of
// any session: the page asks the HTTP API (session/httpapi) of the server that it came from, with the token of the
// person who signs in.
//
// # What the browser may do
//
// The files are plain ES modules and one style sheet, embedded as they are in the folder files. Their content security
// policy allows scripts, styles and requests of the same origin only, and images of data URLs. It allows no inline
// script, no evaluation of text, and no assignment of text as HTML (trusted types: their one policy makes the address of the worker). Replies of models and results of
// tools are hostile: the page makes every node by its tag and puts data into text nodes and attributes of fixed names.
//
// # Modules
//
//	app.js            sign-in, routes, the shell
//	api.js            requests, with the token
//	stream.js, worker.js    streams of server-sent events, which all tabs have by one connection
//	history.js        the fold of a session's commits; a view of it at any sequence
//	session.js        one session: what it follows, its tabs, the scrubber
//	conversation.js, timeline.js, graph.js, events.js, compare.js, inspector.js, scrubber.js, talk.js    parts of a session's page
//	find.js           search in the texts of a conversation
//	proof.js          what a browser can check of signed heads
//	sessions.js, inbox.js             the list of sessions, the approvals
//	summary.js, prices.js             what a session did, why it stopped, what it cost
//	dom.js, parts.js, format.js       nodes, bodies and texts
//	virtual.js                        lists of which only the rows near the viewport are in the document
//
// The token is in the tab's sessionStorage, in the worker's memory while a tab follows a session, and in the header Authorization of
// requests. It is in no URL.
package webpage

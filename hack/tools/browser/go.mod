// chromedp is in no other module: only this test uses it, and it reads nothing of the product.
module github.com/tutti-project/tutti/hack/tools/browser

go 1.26.0

require (
	github.com/chromedp/cdproto v0.160.1
	github.com/chromedp/chromedp v0.23.1
)

require github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect

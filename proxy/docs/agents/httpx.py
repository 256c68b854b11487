# Needs `traceparent`, which is made once for each run. httpx.AsyncClient takes the same arguments.
import os
import httpx

shop = httpx.Client(base_url=os.environ["SHOP_URL"], headers={"traceparent": traceparent})
shop.post("/orders", json={"item": "tea"})
shop.post("/orders", json={"item": "milk"})
